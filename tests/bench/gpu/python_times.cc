// Times of Python candidates on a GPU compared with those of KernelBench's harness, and how well
// they repeat.
//
//   bench_gpu_python_times [--only NAME] [--trials 100] [--json FILE]
//   bench_gpu_python_times --repeat 20 ...
//
// The first form measures each candidate of KernelBench tasks (examples/tasks, and the variants of
// tests/support/task_examples.h) with our judge, and all candidates of a task right afterwards with
// harness_times.py. The second measures each candidate repeatedly, each time in a new process, and
// prints the coefficient of variation of the graph figures. Needs an interpreter with PyTorch for
// CUDA and Triton. Exits with 77 if this machine cannot measure.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/bounded_json.h"
#include "common/base/status.h"
#include "common/process/child_process.h"
#include "nlohmann/json.hpp"
#include "services/worker/core/statistics.h"
#include "services/worker/cuda/target/cuda_target.h"
#include "tests/bench/gpu/variation.h"
#include "tests/support/services.h"
#include "tests/support/task_examples.h"
#include "tests/support/triton_examples.h"

namespace kernelcast::testing {
namespace {

using Json = nlohmann::json;

constexpr int kSkipped = 77;
constexpr int64_t kHarnessLimitNs = 300'000'000'000;
// Differences within this share count as agreement.
constexpr double kAgreement = 0.03;
// Calls whose eager time is within this share of the graph's are not bound by the host.
constexpr double kHostShare = 0.1;
constexpr double kLeastRepeatedNs = 20'000;

struct Flags {
  std::string python = TritonPythonOfTests();
  std::string only;
  std::string json;
  int trials = 100;
  int repeat = 0;
};

struct Timed {
  double graph_ns = 0;
  double eager_ns = 0;
  double speedup = 0;
};

// The candidates by task, without wrong ones.
std::vector<std::vector<TaskExample>> ReadCandidates(const Flags& flags) {
  std::vector<TaskExample> all = MakeTaskVariants();
  for (TaskExample& example : ReadTaskExamples()) {
    if (example.problem->task->format != PythonTask::Format::kKernelBench) continue;
    if (!example.name.starts_with("wrong")) all.push_back(std::move(example));
  }
  std::vector<std::vector<TaskExample>> tasks;
  for (TaskExample& example : all) {
    if (absl::StrCat(example.task, "/", example.name).find(flags.only) == std::string::npos) {
      continue;
    }
    if (tasks.empty() || tasks.back().front().task != example.task) tasks.emplace_back();
    tasks.back().push_back(std::move(example));
  }
  return tasks;
}

absl::StatusOr<std::optional<Timed>> MeasureOne(worker::CudaTarget& target,
                                                const TaskExample& example) {
  const Candidate candidate = CandidateOf(example);
  KC_ASSIGN_OR_RETURN(const auto compiled,
                      target.Compile({*example.problem, &candidate}, worker::CancelToken()));
  const auto* const success = std::get_if<worker::CompileSuccess>(&compiled.result);
  if (success == nullptr) {
    std::printf("%s/%s: %s\n", example.task.c_str(), example.name.c_str(),
                std::get<CompileError>(compiled.result).log.c_str());
    return std::nullopt;
  }
  KC_ASSIGN_OR_RETURN(
      const Measurement measurement,
      target.Measure({*example.problem, candidate, success->artifact, MeasureLevel::kScreen},
                     worker::CancelToken()));
  const auto* const ok = std::get_if<MeasuredOk>(&measurement.outcome);
  if (ok == nullptr || !ok->shapes.front().eager ||
      !ok->shapes.front().eager->no_graph_reason.empty()) {
    std::printf("%s/%s: %s\n", example.task.c_str(), example.name.c_str(),
                MeasurementFeedback(measurement).c_str());
    return std::nullopt;
  }
  const ShapeTiming& shape = ok->shapes.front();
  return Timed{shape.candidate.median_ns, shape.eager->candidate.median_ns, shape.speedup.value};
}

// One object for each candidate.
absl::StatusOr<std::vector<Json>> RunHarness(const Flags& flags, const TemporaryFolder& folder,
                                             const std::vector<TaskExample>& examples) {
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.File(name)) << text;
    return folder.File(name);
  };
  ChildOptions options;
  options.argv = {flags.python, SourcePath("tests/bench/gpu/harness_times.py"), "--trials",
                  absl::StrCat(flags.trials),
                  write("task.py", examples.front().problem->task->source)};
  for (size_t i = 0; i < examples.size(); ++i) {
    options.argv.push_back(write(absl::StrCat("candidate_", i, ".py"), examples[i].source));
  }
  options.environment = {"PATH=/usr/local/bin:/usr/bin:/bin",
                         absl::StrCat("HOME=", folder.path().string())};
  if (const char* const folders = std::getenv("LD_LIBRARY_PATH"); folders != nullptr) {
    options.environment.push_back(absl::StrCat("LD_LIBRARY_PATH=", folders));
  }
  KC_ASSIGN_OR_RETURN(const auto child, ChildProcess::Spawn(options));
  const ChildExit exit = child->Wait(kHarnessLimitNs);
  std::vector<Json> results;
  for (const absl::string_view line : absl::StrSplit(exit.output, '\n')) {
    Json json = ParseBoundedJson(std::string_view(line.data(), line.size()));
    if (json.is_object()) results.push_back(std::move(json));
  }
  if (results.size() != examples.size()) {
    return absl::InternalError(absl::StrCat("harness_times.py: ", exit.output));
  }
  return results;
}

struct Agreement {
  int candidates = 0;
  int agree = 0;

  void Add(double ratio) {
    ++candidates;
    if (std::abs(ratio - 1) <= kAgreement) ++agree;
  }
  void Print(const char* what) const {
    std::printf("%s: %d of %d candidates within %.0f%%\n", what, agree, candidates,
                100 * kAgreement);
  }
};

absl::Status Agree(const Flags& flags, worker::CudaTarget& target, std::ofstream& file) {
  const TemporaryFolder folder("harness");
  Agreement eager;
  Agreement not_bound_by_host;
  std::printf("%-36s %10s %10s %10s %12s %12s\n", "candidate", "graph us", "eager us", "harness us",
              "eager ratio", "graph ratio");
  for (const std::vector<TaskExample>& task : ReadCandidates(flags)) {
    std::vector<TaskExample> measured;
    std::vector<Timed> ours;
    for (const TaskExample& example : task) {
      KC_ASSIGN_OR_RETURN(const std::optional<Timed> timed, MeasureOne(target, example));
      if (!timed) continue;
      measured.push_back(example);
      ours.push_back(*timed);
    }
    if (measured.empty()) continue;
    KC_ASSIGN_OR_RETURN(const std::vector<Json> harness, RunHarness(flags, folder, measured));
    for (size_t i = 0; i < measured.size(); ++i) {
      const std::string name = absl::StrCat(measured[i].task, "/", measured[i].name);
      if (harness[i].contains("error")) {
        std::printf("%s: the harness fails: %s\n", name.c_str(),
                    harness[i]["error"].dump().c_str());
        continue;
      }
      const double mean_ns = harness[i].at("mean_ns").get<double>();
      const double ratio = ours[i].eager_ns / mean_ns;
      eager.Add(ratio);
      if (ours[i].eager_ns <= (1 + kHostShare) * ours[i].graph_ns) not_bound_by_host.Add(ratio);
      std::printf("%-36s %10.2f %10.2f %10.2f %12.3f %12.3f\n", name.c_str(),
                  ours[i].graph_ns / 1000, ours[i].eager_ns / 1000, mean_ns / 1000, ratio,
                  ours[i].graph_ns / mean_ns);
      std::fflush(stdout);
      file << Json{{"bench", "agreement"},
                   {"task", measured[i].task},
                   {"candidate", measured[i].name},
                   {"graph_ns", ours[i].graph_ns},
                   {"eager_ns", ours[i].eager_ns},
                   {"harness", harness[i]},
                   {"ratio", ratio}}
                  .dump()
           << std::endl;
    }
  }
  eager.Print("eager time and the harness's mean");
  not_bound_by_host.Print("the same, where the eager time is within 10% of the graph's");
  return absl::OkStatus();
}

absl::Status Repeat(const Flags& flags, worker::CudaTarget& target, std::ofstream& file) {
  std::vector<double> ratios;
  std::vector<double> times;
  std::printf("%-36s %6s %10s %10s %10s\n", "candidate", "runs", "graph us", "CV ratio", "CV time");
  for (const std::vector<TaskExample>& task : ReadCandidates(flags)) {
    for (const TaskExample& example : task) {
      std::vector<double> speedups;
      std::vector<double> graph_ns;
      for (int run = 0; run < flags.repeat; ++run) {
        KC_ASSIGN_OR_RETURN(const std::optional<Timed> timed, MeasureOne(target, example));
        if (!timed || timed->graph_ns < kLeastRepeatedNs) break;
        speedups.push_back(timed->speedup);
        graph_ns.push_back(timed->graph_ns);
      }
      if (speedups.size() < 2) continue;
      ratios.push_back(Variation(speedups));
      times.push_back(Variation(graph_ns));
      std::printf("%-36s %6zu %10.2f %9.3f%% %9.3f%%\n",
                  absl::StrCat(example.task, "/", example.name).c_str(), speedups.size(),
                  worker::Median(graph_ns) / 1000, 100 * ratios.back(), 100 * times.back());
      std::fflush(stdout);
      file << Json{{"bench", "python repeatability"},
                   {"task", example.task},
                   {"candidate", example.name},
                   {"graph_ns", graph_ns},
                   {"speedups", speedups},
                   {"cv_ratio", ratios.back()},
                   {"cv_time", times.back()}}
                  .dump()
           << std::endl;
    }
  }
  if (ratios.empty()) return absl::OkStatus();
  std::printf(
      "%zu candidates of 20 us and more: CV of the speedup %.3f%% in the median, %.3f%% at worst; "
      "of the time %.3f%% and %.3f%%\n",
      ratios.size(), 100 * worker::Median(ratios), 100 * *std::ranges::max_element(ratios),
      100 * worker::Median(times), 100 * *std::ranges::max_element(times));
  return absl::OkStatus();
}

absl::Status Run(const Flags& flags) {
  const TemporaryFolder folder("python-times");
  worker::CudaTargetOptions options;
  options.program_folder = ProgramFolder();
  options.cache_directory = folder.File("cache");
  options.python = flags.python;
  options.untrusted_uid = 65534;
  KC_ASSIGN_OR_RETURN(const auto target, worker::CudaTarget::Make(std::move(options)));
  const worker::TargetInfo info = target->Describe();
  if (!info.can_measure) return absl::UnavailableError(info.unavailable_reason);
  for (const std::string& missing : info.missing_tools) {
    if (missing.starts_with("no PyTorch tasks")) return absl::UnavailableError(missing);
  }
  std::printf("%s, driver %s\n", info.device.model.c_str(), info.device.driver_version.c_str());
  std::ofstream file;
  if (!flags.json.empty()) file.open(flags.json, std::ios::app);
  return flags.repeat > 0 ? Repeat(flags, *target, file) : Agree(flags, *target, file);
}

}  // namespace
}  // namespace kernelcast::testing

int main(int argc, char** argv) {
  kernelcast::testing::Flags flags;
  CLI::App app("Times of Python candidates compared with those of KernelBench's harness");
  app.add_option("--python", flags.python, "Interpreter with PyTorch for CUDA and Triton")
      ->capture_default_str();
  app.add_option("--only", flags.only, "Part of TASK/CANDIDATE of those to take");
  app.add_option("--trials", flags.trials, "Calls that the harness times")->capture_default_str();
  app.add_option("--repeat", flags.repeat, "Measurements of each candidate, in new processes");
  app.add_option("--json", flags.json, "File to append a line for each candidate to");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = kernelcast::testing::Run(flags);
  if (status.ok()) return 0;
  if (absl::IsUnavailable(status)) {
    std::printf("skipped: %s\n", std::string(status.message()).c_str());
    return kernelcast::testing::kSkipped;
  }
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
