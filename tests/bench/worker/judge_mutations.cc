// Measures how many wrong and cheating kernels the cpu judge catches and how many honest ones it
// convicts. Wraps the references of problems and measures each once at screening level. Prints a
// line for each missed or convicted kernel, and the rates; --output writes one JSON line per
// kernel.
//
//   bench_judge_mutations [--problems NAME ...] [--honest N] [--seconds N] [--output FILE]
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/domain/measurement.h"
#include "services/worker/cpu/cpu_target.h"
#include "tests/bench/worker/judge_mutants.h"

namespace kernelcast::worker {
namespace {

using testing::Mutant;

// A cheat measured as no faster than this gained nothing.
constexpr double kNoGain = 1.1;
constexpr int kAttempts = 3;

struct Flags {
  std::vector<std::string> problems = {"row_softmax", "rmsnorm",    "layernorm", "column_sum",
                                       "argmax_rows", "prefix_sum", "gather",    "transpose"};
  int honest = 40;
  double seconds = 1e9;
  std::string output;
};

CpuTargetOptions Options(const std::string& cache) {
  CpuTargetOptions options;
  options.cache_directory = cache;
  options.include_directories = {std::string(KERNELCAST_SOURCE_DIR) + "/common/candidate_abi"};
  options.lease_file = "/tmp/kernelcast-timing.lock";
  options.runner.path = std::string(KERNELCAST_BIN_DIR) + "/kernelcast-runner";
  options.runner.uid = 65534;
  options.measure.load_limit_ns = 2'000'000'000;
  return options;
}

MeasureOutcome Measure(CpuTarget& target, const Problem& problem, const std::string& source) {
  Candidate candidate;
  candidate.problem_id = problem.problem_id;
  candidate.target = "cpu";
  candidate.source = source;
  candidate.flags = problem.targets.find("cpu")->second.reference.flags;
  candidate.candidate_id = CandidateId(candidate);
  const CancelToken cancel;
  const auto compiled = target.Compile(problem, candidate, cancel);
  if (!compiled.ok() || !std::holds_alternative<CompileSuccess>(compiled->result)) {
    std::fprintf(stderr, "does not compile: %s\n",
                 compiled.ok() ? std::get<CompileError>(compiled->result).log.c_str()
                               : compiled.status().ToString().c_str());
    std::exit(1);
  }
  for (int attempt = 1;; ++attempt) {
    auto measured =
        target.Measure(problem, candidate, std::get<CompileSuccess>(compiled->result).artifact,
                       MeasureLevel::kScreen, cancel);
    if (!measured.ok()) {
      std::fprintf(stderr, "%s\n", measured.status().ToString().c_str());
      std::exit(1);
    }
    if (attempt == kAttempts || !std::holds_alternative<EnvironmentUnstable>(measured->outcome)) {
      return measured->outcome;
    }
  }
}

struct Tally {
  int all = 0;
  int caught = 0;    // or gained nothing
  int missed = 0;    // or convicted, for honest kernels
  int unstable = 0;  // the machine was too noisy
};

void Print(const char* what, const char* caught, const char* missed, const Tally& tally) {
  const int told = tally.caught + tally.missed;
  std::printf("%s: %d, %s %d (%.2f%% of those decided), %s %d, too noisy %d\n", what, tally.all,
              caught, tally.caught, told > 0 ? 100.0 * tally.caught / told : 0.0, missed,
              tally.missed, tally.unstable);
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("How many wrong and cheating kernels the cpu judge catches");
  app.add_option("--problems", flags.problems, "names under examples/problems");
  app.add_option("--honest", flags.honest, "honest kernels to measure, spread over the problems");
  app.add_option("--seconds", flags.seconds, "start no kernel after this time");
  app.add_option("--output", flags.output, "file for one JSON line per kernel");
  CLI11_PARSE(app, argc, argv);
  SetLogLevel(LogLevel::kWarning);

  const auto folder = std::filesystem::temp_directory_path() / "kernelcast-judge-mutations";
  auto target = CpuTarget::Make(Options(folder.string()));
  if (!target.ok() || !(*target)->Describe().can_measure) {
    std::fprintf(stderr, "the cpu target cannot measure here\n");
    return 1;
  }
  std::ofstream output(flags.output);
  const auto start = std::chrono::steady_clock::now();
  const auto in_time = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
           flags.seconds;
  };
  Tally mutants;
  Tally honest;
  int honest_left = flags.honest;
  for (size_t p = 0; p < flags.problems.size(); ++p) {
    const std::string path =
        std::string(KERNELCAST_SOURCE_DIR) + "/examples/problems/" + flags.problems[p];
    auto files = ReadProblemFolder(path);
    if (!files.ok()) {
      std::fprintf(stderr, "%s: %s\n", path.c_str(), files.status().ToString().c_str());
      return 1;
    }
    const Problem problem = ParseProblem(*std::move(files)).value();
    const auto judge = [&](const Mutant& mutant, bool is_honest) {
      if (!in_time()) {
        return;
      }
      const MeasureOutcome outcome = Measure(**target, problem, mutant.source);
      const auto* const ok = std::get_if<MeasuredOk>(&outcome);
      const bool unstable = std::holds_alternative<EnvironmentUnstable>(outcome);
      Tally& tally = is_honest ? honest : mutants;
      const bool good =
          is_honest ? ok != nullptr
                    : ok == nullptr || (mutant.may_be_honest && ok->speedup.value <= kNoGain);
      ++tally.all;
      ++(unstable ? tally.unstable : good ? tally.caught : tally.missed);
      Measurement measurement;
      measurement.outcome = outcome;
      if (!good && !unstable) {
        std::printf("%s %s: %s\n", is_honest ? "CONVICTED" : "MISSED", mutant.name.c_str(),
                    MeasurementFeedback(measurement).c_str());
        std::fflush(stdout);
      }
      output << nlohmann::json({{"kernel", mutant.name},
                                {"honest", is_honest},
                                {"outcome", std::string(OutcomeName(outcome))},
                                {"speedup", ok != nullptr ? ok->speedup.value : 0},
                                {"right", unstable ? "unknown"
                                          : good   ? "yes"
                                                   : "no"}})
                    .dump()
             << "\n"
             << std::flush;
    };
    const int share = honest_left / static_cast<int>(flags.problems.size() - p);
    honest_left -= share;
    const std::vector<Mutant> variants = testing::HonestCpuVariants(problem);
    for (int i = 0; i < share; ++i) {
      judge(variants[static_cast<size_t>(i) % variants.size()], true);
    }
    for (const Mutant& mutant : testing::CpuMutants(problem)) judge(mutant, false);
    std::fprintf(stderr, "%s: %d mutants, %d missed; %d honest, %d convicted\n",
                 problem.name.c_str(), mutants.all, mutants.missed, honest.all, honest.missed);
  }
  Print("wrong or cheating", "caught", "missed", mutants);
  Print("honest", "measured", "convicted", honest);
  return mutants.missed + honest.missed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) { return kernelcast::worker::Main(argc, argv); }
