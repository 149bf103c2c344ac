// Candidates per second that a GPU's worker judges, compiling included, and where the time goes.
//
//   bench_gpu_python_rate [--count 100] [--kernelbench FOLDER] [--json FILE]
//
// Triton kernels as device code, with an empty compile cache and with a full one; Python candidates
// with a Triton kernel, and in PyTorch. Calls take about 50 to 100 us. Compiling runs ahead of
// judging, as in the worker. With a clone of KernelBench, also its eval_kernel_against_ref on the
// same Python candidates: all in one process, and each in a process of its own. Needs an
// interpreter with PyTorch for CUDA and Triton. Exits with 77 if this machine cannot measure.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "tests/bench/gpu/python_bench.h"
#include "tests/support/gated_silu_candidates.h"
#include "tests/support/kernel_examples.h"
#include "tests/support/task_examples.h"

namespace kernelcast::testing {
namespace {

using Json = nlohmann::json;

constexpr int kSkipped = 77;
// KernelBench is slow enough that fewer show its rate.
constexpr size_t kInOneProcess = 30;
constexpr size_t kInProcessesOfTheirOwn = 6;

struct Flags {
  std::string python = PythonOfTests("triton");
  std::string kernelbench;
  std::string json;
  int count = 100;
  int compile_jobs = static_cast<int>(std::thread::hardware_concurrency());
};

struct Pool {
  std::string name;
  const Problem* problem;
  std::vector<Candidate> candidates;
};

double Seconds(int64_t start_ns) {
  return static_cast<double>(Clock::Real().MonotonicNs() - start_ns) * 1e-9;
}

// Fails if a candidate is not ok.
absl::Status JudgeOne(worker::CudaTarget& target, const Pool& pool, CompileAhead& compiling,
                      std::map<std::string, int64_t>& stages_ns) {
  const int64_t asked_ns = Clock::Real().MonotonicNs();
  const CompileAhead::Compiled compiled = compiling.Next();
  KC_RETURN_IF_ERROR(compiled.artifact.status());
  const int64_t compiled_ns = Clock::Real().MonotonicNs();
  KC_ASSIGN_OR_RETURN(const Measurement measurement,
                      target.Measure({*pool.problem, pool.candidates[compiled.index],
                                      *compiled.artifact, MeasureLevel::kScreen},
                                     worker::CancelToken()));
  if (!std::holds_alternative<MeasuredOk>(measurement.outcome)) {
    return absl::InternalError(
        absl::StrCat(pool.name, " ", compiled.index, ": ", MeasurementFeedback(measurement)));
  }
  const worker::CudaMeasurer::Times& times = target.last_times();
  const std::vector<std::pair<std::string, int64_t>> stages = {
      {"prepare", times.prepare_ns},
      {"attach", times.attach_ns},
      {"load", times.judge.start_ns},
      {"check", times.judge.check_ns},
      {"wait for the device", times.judge.wait_ns},
      {"capture", times.judge.capture_ns},
      {"graphs", times.judge.graphs_ns},
      {"eager", times.judge.timing_ns},
      {"new values", times.judge.fresh_ns},
      {"end", times.end_ns}};
  int64_t sum_ns = 0;
  for (const auto& [stage, ns] : stages) {
    stages_ns[stage] += ns;
    sum_ns += ns;
  }
  stages_ns["wait for the compiler"] += compiled_ns - asked_ns;
  // Mostly for its process, which loads it ahead.
  stages_ns["other, and wait for loading"] += Clock::Real().MonotonicNs() - compiled_ns - sum_ns;
  return absl::OkStatus();
}

absl::Status JudgeAll(const Flags& flags, worker::CudaTarget& target, const Pool& pool,
                      std::ofstream& file) {
  std::map<std::string, int64_t> stages_ns;
  const int64_t start_ns = Clock::Real().MonotonicNs();
  CompileAhead compiling(target, *pool.problem, pool.candidates, flags.compile_jobs);
  for (size_t i = 0; i < pool.candidates.size(); ++i) {
    KC_RETURN_IF_ERROR(JudgeOne(target, pool, compiling, stages_ns));
  }
  const double seconds = Seconds(start_ns);
  const auto count = static_cast<double>(pool.candidates.size());
  std::printf("%s: %.0f candidates in %.2f s, compiling included: %.1f / s; ms of each:\n",
              pool.name.c_str(), count, seconds, count / seconds);
  Json stages;
  for (const auto& [stage, ns] : stages_ns) {
    stages[stage] = static_cast<double>(ns) / count;
    std::printf("  %-28s %6.1f\n", stage.c_str(), static_cast<double>(ns) * 1e-6 / count);
  }
  std::fflush(stdout);
  file << Json{{"bench", "rate"},    {"candidates", pool.name}, {"count", pool.candidates.size()},
               {"seconds", seconds}, {"rate", count / seconds}, {"stages_ns", stages}}
              .dump()
       << std::endl;
  return absl::OkStatus();
}

absl::Status JudgeWithKernelBench(const Flags& flags, const Pool& pool, std::ofstream& file) {
  for (const int processes : {0, 1}) {
    const size_t most = processes == 0 ? kInOneProcess : kInProcessesOfTheirOwn;
    std::vector<std::string> sources;
    for (size_t i = 0; i < std::min(most, pool.candidates.size()); ++i) {
      sources.push_back(pool.candidates[i].source);
    }
    KC_ASSIGN_OR_RETURN(
        const std::vector<Json> results,
        RunKernelBench(
            {.python = flags.python, .folder = flags.kernelbench, .processes = processes},
            pool.problem->task->source, sources));
    double seconds = 0;
    size_t correct = 0;
    for (const Json& result : results) {
      seconds += result.value("seconds", 0.0);
      correct += result.value("correct", false) ? 1 : 0;
    }
    const double rate = static_cast<double>(results.size()) / seconds;
    std::printf("%s, KernelBench, %s: %zu candidates, %zu correct, in %.2f s: %.1f / s\n",
                pool.name.c_str(), processes == 0 ? "one process" : "a process for each",
                results.size(), correct, seconds, rate);
    std::fflush(stdout);
    file << Json{{"bench", "rate of KernelBench"},
                 {"candidates", pool.name},
                 {"process_for_each", processes != 0},
                 {"count", results.size()},
                 {"correct", correct},
                 {"seconds", seconds},
                 {"rate", rate}}
                .dump()
         << std::endl;
  }
  return absl::OkStatus();
}

// Kernels of about 50 us: rows in blocks of different sizes.
Pool TritonKernels(const Problem& problem, int count) {
  Pool pool{"Triton as device code", &problem, {}};
  const std::vector<KernelExample> examples = ReadKernelExamples(SourcePath("examples/triton"));
  const auto base = std::ranges::find_if(examples, [](const KernelExample& example) {
    return example.problem == "rmsnorm" && example.candidate.name == "two_passes";
  });
  for (const char* block : {"256", "512", "1024", "2048", "4096"}) {
    for (const int warps : {2, 4, 8, 16}) {
      for (const int stages : {1, 2, 3, 4, 5}) {
        if (static_cast<int>(pool.candidates.size()) == count) return pool;
        Candidate candidate = base->candidate;
        candidate.launches[0].constexprs = {{"BLOCK", block}};
        candidate.launches[0].num_warps = warps;
        candidate.launches[0].num_stages = stages;
        candidate.candidate_id = CandidateId(candidate);
        pool.candidates.push_back(std::move(candidate));
      }
    }
  }
  return pool;
}

Pool PythonCandidates(const std::shared_ptr<const Problem>& task, bool triton, int count) {
  Pool pool{triton ? "Triton with host code" : "PyTorch", task.get(), {}};
  for (int i = 0; i < count; ++i) {
    const std::string source =
        triton ? absl::StrReplaceAll(kGatedSiluTriton,
                                     {{"g / (1", absl::StrCat("(g + ", i, "e-9) / (1")}})
               : GatedSiluModel(absl::StrCat("        return silu(gate).mul_(value)  # ", i));
    pool.candidates.push_back(CandidateOf({"gated_silu", absl::StrCat(i), source, task}));
  }
  return pool;
}

absl::Status Run(const Flags& flags) {
  const TemporaryFolder folder("python-rate");
  KC_ASSIGN_OR_RETURN(const auto target,
                      MakePythonTarget(flags.python, folder.File("cache"), flags.compile_jobs));
  std::ofstream file;
  if (!flags.json.empty()) file.open(flags.json, std::ios::app);

  const Problem rmsnorm = ReadExampleProblem("rmsnorm");
  Pool kernels = TritonKernels(rmsnorm, flags.count);
  // Prepares the problem.
  Pool first = TritonKernels(rmsnorm, 1);
  first.candidates[0].launches[0].constexprs = {{"BLOCK", "128"}};
  first.candidates[0].candidate_id = CandidateId(first.candidates[0]);
  first.name = "the first";
  KC_RETURN_IF_ERROR(JudgeAll(flags, *target, first, file));
  kernels.name += ", empty compile cache";
  KC_RETURN_IF_ERROR(JudgeAll(flags, *target, kernels, file));
  kernels.name = "Triton as device code, compiled before";
  KC_RETURN_IF_ERROR(JudgeAll(flags, *target, kernels, file));

  KC_ASSIGN_OR_RETURN(Problem parsed, ParseProblem({{"task.py", kGatedSiluTask}}));
  const auto task = std::make_shared<const Problem>(std::move(parsed));
  Pool first_of_task = PythonCandidates(task, true, 1);
  first_of_task.name = "the first of the task";
  KC_RETURN_IF_ERROR(JudgeAll(flags, *target, first_of_task, file));
  for (const bool triton : {true, false}) {
    const Pool pool = PythonCandidates(task, triton, flags.count);
    KC_RETURN_IF_ERROR(JudgeAll(flags, *target, pool, file));
    if (flags.kernelbench.empty()) continue;
    KC_RETURN_IF_ERROR(JudgeWithKernelBench(flags, pool, file));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace kernelcast::testing

int main(int argc, char** argv) {
  kernelcast::testing::Flags flags;
  CLI::App app("Candidates in Triton and PyTorch per second");
  app.add_option("--python", flags.python, "Interpreter with PyTorch for CUDA and Triton")
      ->capture_default_str();
  app.add_option("--kernelbench", flags.kernelbench, "Clone of KernelBench's repository");
  app.add_option("--count", flags.count, "Candidates of each kind")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  app.add_option("--compile-jobs", flags.compile_jobs, "Parallel compiles")->capture_default_str();
  app.add_option("--json", flags.json, "File to append a line for each kind to");
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
