// Measures repeatability: the same candidate in many fresh runners, with the coefficient of
// variation of the ratio to the reference and of the absolute time.
//
//   bench_worker_repeatability [--problem FOLDER] [--candidate FILE] [--runs N] [--final]
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "common/base/file.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/statistics.h"
#include "common/domain/measurement.h"
#include "services/worker/cpu/cpu_target.h"

namespace kernelcast::worker {
namespace {

struct Flags {
  std::string problem = std::string(KERNELCAST_SOURCE_DIR) + "/examples/problems/row_softmax";
  std::string candidate;
  int runs = 20;
  bool final_level = false;
  bool verbose = false;
};

double VariationPercent(const std::vector<double>& values) {
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  return 100 * std::sqrt(squares / static_cast<double>(values.size() - 1)) / mean;
}

CpuTargetOptions Options(const std::string& cache) {
  CpuTargetOptions options;
  options.cache_directory = cache;
  options.include_directories = {std::string(KERNELCAST_SOURCE_DIR) + "/common/candidate_abi"};
  options.lease_file = "/tmp/kernelcast-timing.lock";
  options.runner.path = std::string(KERNELCAST_BIN_DIR) + "/kernelcast-runner";
  options.runner.uid = 65534;
  return options;
}

struct Sample {
  std::vector<double> ratios;
  std::vector<double> candidate_us;
  std::vector<double> reference_us;
  std::vector<double> half_widths;
  std::vector<double> wall_ms;
  int unstable = 0;
};

void Print(const char* what, const Sample& sample) {
  if (sample.ratios.size() < 2) {
    std::printf("%-28s too few results (%d unstable)\n", what, sample.unstable);
    return;
  }
  std::printf(
      "%-28s n %2zu  ratio %.4f  CV %.3f%%  | candidate %.1f us CV %.3f%%  reference %.1f us CV "
      "%.3f%%  |"
      " half-width %.3f%%  wall %.0f ms  unstable %d\n",
      what, sample.ratios.size(), Mean(sample.ratios), VariationPercent(sample.ratios),
      Mean(sample.candidate_us), VariationPercent(sample.candidate_us), Mean(sample.reference_us),
      VariationPercent(sample.reference_us), 100 * Mean(sample.half_widths), Mean(sample.wall_ms),
      sample.unstable);
}

absl::Status MeasureOnce(CpuTarget& target, const Problem& problem, const Candidate& candidate,
                         MeasureLevel level, Sample& sample) {
  const CancelToken cancel;
  auto compiled = target.Compile({problem, &candidate}, cancel);
  if (!compiled.ok()) {
    return compiled.status();
  }
  const auto* success = std::get_if<CompileSuccess>(&compiled->result);
  if (success == nullptr) {
    return absl::InvalidArgumentError(std::get<CompileError>(compiled->result).log);
  }
  const auto start = std::chrono::steady_clock::now();
  auto measurement = target.Measure({problem, candidate, success->artifact, level}, cancel);
  if (!measurement.ok()) {
    return measurement.status();
  }
  const auto* ok = std::get_if<MeasuredOk>(&measurement->outcome);
  if (ok == nullptr) {
    if (std::holds_alternative<EnvironmentUnstable>(measurement->outcome)) {
      ++sample.unstable;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(MeasurementFeedback(*measurement));
  }
  sample.ratios.push_back(ok->speedup.value);
  sample.half_widths.push_back((ok->speedup.high - ok->speedup.low) / 2 / ok->speedup.value);
  sample.candidate_us.push_back(ok->shapes[0].candidate.median_ns / 1000);
  sample.reference_us.push_back(ok->shapes[0].reference.median_ns / 1000);
  sample.wall_ms.push_back(
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  return absl::OkStatus();
}

int Run(const Flags& flags) {
  SetLogLevel(flags.verbose ? LogLevel::kDebug : LogLevel::kWarning);
  auto files = ReadProblemFolder(flags.problem);
  auto problem = files.ok() ? ParseProblem(*files) : files.status();
  if (!problem.ok()) {
    std::fprintf(stderr, "%s\n", problem.status().ToString().c_str());
    return 1;
  }
  Candidate candidate = ReferenceCandidate(*problem, kCpuTargetName).value();
  if (!flags.candidate.empty()) {
    candidate.source = ReadFile(flags.candidate).value();
    candidate.candidate_id = CandidateId(candidate);
  } else if (const auto& space = problem->targets.at("cpu").space) {
    candidate = CandidateFromPoint(*space, EnumeratePoints(*space, 1).front(), problem->problem_id);
  }
  const MeasureLevel level = flags.final_level ? MeasureLevel::kFinal : MeasureLevel::kScreen;
  const std::filesystem::path cache =
      std::filesystem::temp_directory_path() / RandomId("kernelcast-repeatability-");

  Sample kept;
  Sample fresh;
  absl::Status status;
  auto target = CpuTarget::Make(Options(cache.string()));
  status = target.status();
  for (int i = 0; status.ok() && i < flags.runs; ++i) {
    status = MeasureOnce(**target, *problem, candidate, level, kept);
  }
  for (int i = 0; status.ok() && i < flags.runs; ++i) {
    // A new reference process, new memory and new inputs.
    target = CpuTarget::Make(Options(cache.string()));
    status =
        target.ok() ? MeasureOnce(**target, *problem, candidate, level, fresh) : target.status();
  }
  std::error_code ignored;
  std::filesystem::remove_all(cache, ignored);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  std::printf("%s, %s\n", problem->name.c_str(), flags.final_level ? "final" : "screening");
  Print("fresh candidate processes", kept);
  Print("all processes fresh", fresh);
  return 0;
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) {
  kernelcast::worker::Flags flags;
  CLI::App app("How well a measurement repeats.");
  app.add_option("--problem", flags.problem, "Problem folder")->capture_default_str();
  app.add_option("--candidate", flags.candidate, "Source; default: the first point of the space");
  app.add_option("--runs", flags.runs, "Measurements of each kind")->capture_default_str();
  app.add_flag("--final", flags.final_level, "Measure at final level");
  app.add_flag("--verbose", flags.verbose, "Log the stages of each measurement");
  CLI11_PARSE(app, argc, argv);
  return kernelcast::worker::Run(flags);
}
