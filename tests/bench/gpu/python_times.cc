// Python candidates on a GPU: their times and verdicts compared with those of KernelBench, and how
// well times repeat.
//
//   bench_gpu_python_times [--kernelbench FOLDER] [--only NAME] [--trials 100] [--json FILE]
//   bench_gpu_python_times --tasks FILE... [--kernelbench FOLDER] ...
//   bench_gpu_python_times --verdicts --kernelbench FOLDER ...
//   bench_gpu_python_times --repeat 20 [--quiet] [--final] ...
//
// The first form measures each candidate of KernelBench tasks (examples/tasks, and the variants of
// tests/support/task_examples.h) with our judge, and all candidates of a task right afterwards with
// eval_kernel_against_ref of a clone of KernelBench's repository, if given. KernelBench's loop is
// then run again without the wait for the device before each call, and again with a call that does
// nothing. "net" figures are without the time of that call. The second form does so for other tasks
// in KernelBench's form, whose own reference is the candidate. The third compares the verdicts on
// these examples and on the candidates of tests/support/gated_silu_candidates.h, which are right,
// wrong, fail, hang or cheat. The last measures each candidate repeatedly, each time in a new
// process, and prints the coefficient of variation of the graph figures. Other candidates are
// loaded meanwhile, as in a worker that is busy, unless --quiet is given. Needs an interpreter with
// PyTorch for CUDA and Triton. Exits with 77 if this machine cannot measure.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "services/worker/core/statistics.h"
#include "services/worker/core/verdict.h"
#include "tests/bench/gpu/python_bench.h"
#include "tests/bench/gpu/variation.h"
#include "tests/support/gated_silu_candidates.h"
#include "tests/support/kernel_examples.h"
#include "tests/support/task_examples.h"

namespace kernelcast::testing {
namespace {

using Json = nlohmann::json;

constexpr int kSkipped = 77;
// Differences within this share count as agreement.
constexpr double kAgreement = 0.03;
// Calls whose eager time is within this share of the graph's are not bound by the host.
constexpr double kHostShare = 0.1;
constexpr double kLeastRepeatedNs = 20'000;
// Processes of KernelBench while it judges verdicts.
constexpr int kProcesses = 14;
constexpr int kCompileJobs = 4;

struct Flags {
  std::string python = PythonOfTests("triton");
  std::string only;
  std::string json;
  std::string kernelbench;
  std::vector<std::string> tasks;
  bool verdicts = false;
  bool quiet = false;
  bool final_level = false;
  int trials = 100;
  int repeat = 0;
};

struct Timed {
  double graph_ns = 0;  // 0: no graphs
  double eager_ns = 0;
  double speedup = 0;
  double eager_speedup = 0;
};

// Each task with its reference as the candidate.
absl::StatusOr<std::vector<std::vector<TaskExample>>> ReadReferences(
    const std::vector<std::string>& paths) {
  std::vector<std::vector<TaskExample>> tasks;
  for (const std::string& path : paths) {
    KC_ASSIGN_OR_RETURN(std::vector<ProblemFile> files, ReadProblemFolder(path));
    KC_ASSIGN_OR_RETURN(Problem problem, ParseProblem(std::move(files)));
    static const std::regex name("\\bModel\\b");
    std::string candidate = std::regex_replace(problem.task->source, name, "ModelNew");
    tasks.push_back({{std::filesystem::path(path).stem().string(), "reference",
                      std::move(candidate), std::make_shared<const Problem>(std::move(problem))}});
  }
  return tasks;
}

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

// In this order. One whose kernels do not compile appears as one that cannot be loaded.
absl::StatusOr<std::vector<Measurement>> JudgeAll(const Flags& flags, worker::CudaTarget& target,
                                                  const std::vector<TaskExample>& examples) {
  const MeasureLevel level = flags.final_level ? MeasureLevel::kFinal : MeasureLevel::kScreen;
  std::vector<Candidate> candidates;
  for (const TaskExample& example : examples) candidates.push_back(CandidateOf(example));
  const Problem& problem = *examples.front().problem;
  CompileAhead compiling(target, problem, candidates, kCompileJobs, !flags.quiet, level);
  std::vector<Measurement> measurements(examples.size());
  for (size_t i = 0; i < examples.size(); ++i) {
    const CompileAhead::Compiled compiled = compiling.Next();
    KC_RETURN_IF_ERROR(compiled.artifact.status());
    auto measured = target.Measure({problem, candidates[compiled.index], *compiled.artifact, level},
                                   worker::CancelToken());
    if (const auto error = worker::NotCompiledError(measured.status())) {
      Crash crash;
      crash.cause = Crash::Cause::kLoad;
      crash.output_tail = error->log;
      measurements[compiled.index].outcome = std::move(crash);
      continue;
    }
    KC_ASSIGN_OR_RETURN(measurements[compiled.index], std::move(measured));
  }
  return measurements;
}

// None, with a message, if it was not timed.
std::optional<Timed> TimedOf(const TaskExample& example, const Measurement& measurement) {
  const auto* const ok = std::get_if<MeasuredOk>(&measurement.outcome);
  if (ok == nullptr || !ok->shapes.front().eager) {
    std::printf("%s/%s: %s\n", example.task.c_str(), example.name.c_str(),
                MeasurementFeedback(measurement).c_str());
    return std::nullopt;
  }
  const ShapeTiming& shape = ok->shapes.front();
  const bool has_graph = shape.eager->no_graph_reason.empty();
  return Timed{has_graph ? shape.candidate.median_ns : 0, shape.eager->candidate.median_ns,
               shape.speedup.value, shape.eager->speedup.value};
}

// One object for each candidate of a task.
absl::StatusOr<std::vector<Json>> JudgeWithKernelBench(const Flags& flags, int processes,
                                                       const std::vector<TaskExample>& examples) {
  std::vector<std::string> sources;
  for (const TaskExample& example : examples) sources.push_back(example.source);
  return RunKernelBench({.python = flags.python,
                         .folder = flags.kernelbench,
                         .trials = flags.trials,
                         .processes = processes,
                         .explain = processes == 0},
                        examples.front().problem->task->source, sources);
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
  std::vector<std::vector<TaskExample>> tasks;
  if (flags.tasks.empty()) {
    tasks = ReadCandidates(flags);
  } else {
    KC_ASSIGN_OR_RETURN(tasks, ReadReferences(flags.tasks));
  }
  absl::Status failed;  // of the last task that cannot be judged
  Agreement eager;
  Agreement not_bound_by_host;
  Agreement graph;
  Agreement eager_ahead;
  Agreement graph_without_empty;
  std::printf("%-36s %10s %10s %10s %12s %12s %10s %10s\n", "candidate", "graph us", "eager us",
              "mean us", "eager/mean", "graph/median", "eager/net", "graph/net");
  for (const std::vector<TaskExample>& task : tasks) {
    std::vector<TaskExample> measured;
    std::vector<Timed> ours;
    const absl::StatusOr<std::vector<Measurement>> measurements = JudgeAll(flags, target, task);
    if (!measurements.ok()) {
      failed = measurements.status();
      std::printf("%s: %s\n", task.front().task.c_str(), failed.ToString().c_str());
      continue;
    }
    for (size_t i = 0; i < task.size(); ++i) {
      const std::optional<Timed> timed = TimedOf(task[i], (*measurements)[i]);
      if (!timed) continue;
      if (flags.kernelbench.empty()) {
        std::printf("%-36s %10.2f %10.2f   speedup %.3f, preparation %.1f s\n",
                    absl::StrCat(task[i].task, "/", task[i].name).c_str(), timed->graph_ns / 1000,
                    timed->eager_ns / 1000, timed->speedup,
                    static_cast<double>((*measurements)[i].preparation_time_ns) / 1e9);
        std::fflush(stdout);
        file << Json{{"bench", "times"},
                     {"task", task[i].task},
                     {"candidate", task[i].name},
                     {"graph_ns", timed->graph_ns},
                     {"eager_ns", timed->eager_ns},
                     {"speedup", timed->speedup},
                     {"eager_speedup", timed->eager_speedup},
                     {"preparation_ns", (*measurements)[i].preparation_time_ns}}
                    .dump()
             << std::endl;
        continue;
      }
      measured.push_back(task[i]);
      ours.push_back(*timed);
    }
    if (measured.empty()) continue;
    KC_ASSIGN_OR_RETURN(const std::vector<Json> harness, JudgeWithKernelBench(flags, 0, measured));
    for (size_t i = 0; i < measured.size(); ++i) {
      const std::string name = absl::StrCat(measured[i].task, "/", measured[i].name);
      if (!harness[i].contains("mean_ns")) {
        std::printf("%s: KernelBench: %s\n", name.c_str(), harness[i].dump().c_str());
        continue;
      }
      const double mean_ns = harness[i].at("mean_ns").get<double>();
      const double ratio = ours[i].eager_ns / mean_ns;
      const double graph_ratio = ours[i].graph_ns / harness[i].at("median_ns").get<double>();
      // Without what KernelBench's events measure when nothing is called.
      const double empty_ns = harness[i].at("empty_median_ns").get<double>();
      const double eager_net =
          ours[i].eager_ns / (harness[i].at("ahead_median_ns").get<double>() - empty_ns);
      const double graph_net =
          ours[i].graph_ns / (harness[i].at("median_ns").get<double>() - empty_ns);
      eager.Add(ratio);
      eager_ahead.Add(eager_net);
      if (ours[i].graph_ns >= kLeastRepeatedNs) {
        graph.Add(graph_ratio);
        graph_without_empty.Add(graph_net);
      }
      if (ours[i].graph_ns == 0 || ours[i].eager_ns <= (1 + kHostShare) * ours[i].graph_ns) {
        not_bound_by_host.Add(ratio);
      }
      std::printf("%-36s %10.2f %10.2f %10.2f %12.3f %12.3f %10.3f %10.3f\n", name.c_str(),
                  ours[i].graph_ns / 1000, ours[i].eager_ns / 1000, mean_ns / 1000, ratio,
                  graph_ratio, eager_net, graph_net);
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
  if (flags.kernelbench.empty()) return failed;
  graph.Print("graph time of 20 us and more, and KernelBench's median");
  eager.Print("eager time and KernelBench's mean");
  not_bound_by_host.Print(
      "the same, where the eager time is within 10% of the graph's, or there is no graph");
  graph_without_empty.Print(
      "graph time of 20 us and more, and KernelBench's median less its time of no call");
  eager_ahead.Print(
      "eager time, and the median of KernelBench's loop without waiting, less its time of no call");
  return failed;
}

std::string KernelBenchVerdict(const Json& result) {
  if (result.value("correct", false)) {
    const double speedup = result.value("reference_ns", 0.0) / result.value("mean_ns", 1.0);
    return absl::StrFormat("correct, %.2f times as fast%s", speedup,
                           result.contains("error") ? ", excessive" : "");
  }
  if (!result.value("compiled", true)) return "does not compile";
  return absl::StrCat("not correct: ", result.value("error", ""));
}

absl::Status CompareVerdicts(const Flags& flags, worker::CudaTarget& target, std::ofstream& file) {
  std::vector<std::vector<TaskExample>> tasks(1);
  KC_ASSIGN_OR_RETURN(Problem parsed, ParseProblem({{"task.py", kGatedSiluTask}}));
  const auto silu = std::make_shared<const Problem>(std::move(parsed));
  for (const PythonCase& made : GatedSiluCases()) {
    tasks[0].push_back({"gated_silu", made.name, made.source, silu});
  }
  for (TaskExample& example : ReadTaskExamples()) {
    if (example.problem->task->format != PythonTask::Format::kKernelBench) continue;
    if (tasks.back().front().task != example.task) tasks.emplace_back();
    tasks.back().push_back(std::move(example));
  }
  int compared = 0;
  int differ = 0;
  for (const std::vector<TaskExample>& task : tasks) {
    KC_ASSIGN_OR_RETURN(const std::vector<Json> theirs,
                        JudgeWithKernelBench(flags, kProcesses, task));
    KC_ASSIGN_OR_RETURN(const std::vector<Measurement> measurements, JudgeAll(flags, target, task));
    for (size_t i = 0; i < task.size(); ++i) {
      const Measurement& measurement = measurements[i];
      const bool ok = std::holds_alternative<MeasuredOk>(measurement.outcome);
      const bool differs = ok != theirs[i].value("correct", false);
      ++compared;
      differ += differs ? 1 : 0;
      std::printf("%s%s/%s\n    %s: %s\n    KernelBench: %s\n", differs ? "DIFFERS " : "",
                  task[i].task.c_str(), task[i].name.c_str(),
                  std::string(OutcomeName(measurement.outcome)).c_str(),
                  MeasurementFeedback(measurement).c_str(), KernelBenchVerdict(theirs[i]).c_str());
      std::fflush(stdout);
      file << Json{{"bench", "verdicts"},
                   {"task", task[i].task},
                   {"candidate", task[i].name},
                   {"outcome", OutcomeName(measurement.outcome)},
                   {"feedback", MeasurementFeedback(measurement)},
                   {"kernelbench", theirs[i]}}
                  .dump(-1, ' ', false, Json::error_handler_t::replace)
           << std::endl;
    }
  }
  std::printf("%d of %d verdicts differ\n", differ, compared);
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
      // Each in a process of its own, because their sources differ.
      std::vector<TaskExample> runs(flags.repeat, example);
      for (int run = 0; run < flags.repeat; ++run) {
        absl::StrAppend(&runs[run].source, "\n# ", run, "\n");
      }
      KC_ASSIGN_OR_RETURN(const std::vector<Measurement> measurements,
                          JudgeAll(flags, target, runs));
      for (const Measurement& measurement : measurements) {
        const std::optional<Timed> timed = TimedOf(example, measurement);
        if (!timed || timed->graph_ns < kLeastRepeatedNs) continue;
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
                   {"quiet", flags.quiet},
                   {"level", flags.final_level ? "final" : "screen"},
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
  KC_ASSIGN_OR_RETURN(const auto target, MakePythonTarget(flags.python, folder.File("cache"),
                                                          /*compile_processes=*/1));
  std::ofstream file;
  if (!flags.json.empty()) file.open(flags.json, std::ios::app);
  if (flags.repeat > 0) return Repeat(flags, *target, file);
  return flags.verdicts ? CompareVerdicts(flags, *target, file) : Agree(flags, *target, file);
}

}  // namespace
}  // namespace kernelcast::testing

int main(int argc, char** argv) {
  kernelcast::testing::Flags flags;
  CLI::App app("Times and verdicts of Python candidates compared with those of KernelBench");
  app.add_option("--python", flags.python, "Interpreter with PyTorch for CUDA and Triton")
      ->capture_default_str();
  app.add_option("--only", flags.only, "Part of TASK/CANDIDATE of those to take");
  app.add_option("--trials", flags.trials, "Calls that KernelBench times")->capture_default_str();
  auto* const repeat =
      app.add_option("--repeat", flags.repeat, "Measurements of each candidate, in new processes");
  app.add_flag("--quiet", flags.quiet, "Loads no other candidates meanwhile")->needs(repeat);
  app.add_flag("--final", flags.final_level, "Measures at the final level")->needs(repeat);
  app.add_option("--tasks", flags.tasks, "Files in KernelBench's form, whose reference is judged")
      ->excludes(repeat);
  auto* const kernelbench = app.add_option("--kernelbench", flags.kernelbench,
                                           "Clone of KernelBench's repository, to compare with");
  app.add_flag("--verdicts", flags.verdicts, "Compares verdicts, also of wrong candidates")
      ->needs(kernelbench)
      ->excludes(repeat);
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
