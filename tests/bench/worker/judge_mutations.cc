// Measures how many wrong and cheating kernels a judge catches and how many honest ones it refuses.
// Changes the references of problems and measures each once at screening level. Prints a line for
// each missed or refused kernel, and the rates; --output writes one JSON line per kernel.
//
//   bench_judge_mutations [--target cpu|cuda] [--problems NAME ...] [--honest N] [--mutants N]
//                         [--host] [--seconds N] [--output FILE]
//   bench_judge_mutations --target cuda --compile-only
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/domain/measurement.h"
#include "services/worker/cpu/cpu_target.h"
#include "tests/bench/worker/judge_mutants.h"
#include "tests/support/services.h"
#ifdef KERNELCAST_BENCH_CUDA
#include "services/worker/cuda/target/cuda_target.h"
#endif

namespace kernelcast::worker {
namespace {

using testing::Mutant;

// A cheat measured as no faster than this gained nothing.
constexpr double kNoGain = 1.1;
constexpr int kAttempts = 3;

struct Flags {
  std::string target = "cpu";
  std::vector<std::string> problems;
  int honest = 40;
  int mutants = 0;
  bool host = false;
  double seconds = 1e9;
  int threads = 0;
  bool compile_only = false;
  std::string output;
};

struct Item {
  const Problem* problem = nullptr;
  Mutant mutant = {};
  bool honest = false;
  // Written by the thread that compiles.
  std::optional<Artifact> artifact = {};
  std::string compile_error = {};

  std::string Name() const { return absl::StrCat(problem->name, ": ", mutant.kind); }
};

absl::StatusOr<std::unique_ptr<Target>> MakeTarget(const Flags& flags, int threads,
                                                   const std::string& cache) {
  const std::string programs = testing::ProgramFolder();
  if (flags.target == kCpuTargetName) {
    CpuTargetOptions options;
    options.cache_directory = cache;
    options.include_directories = {testing::SourcePath("common/candidate_abi")};
    options.lease_file = "/tmp/kernelcast-timing.lock";
    options.runner.path = programs + "/kernelcast-runner";
    options.runner.uid = 65534;
    options.measure.load_limit_ns = 2'000'000'000;
    return CpuTarget::Make(std::move(options));
  }
#ifdef KERNELCAST_BENCH_CUDA
  CudaTargetOptions options;
  options.program_folder = programs;
  options.cache_directory = cache;
  options.compile_processes = threads;
  options.untrusted_uid = 65534;
  options.worker_id = "bench";
  options.include_directories = kernelcast::testing::CandidateHeaders();
  return CudaTarget::Make(std::move(options));
#else
  (void)threads;
  return absl::UnimplementedError("this build has no cuda target");
#endif
}

std::vector<std::string> DefaultProblems(const std::string& target) {
  std::vector<std::string> names = {"row_softmax", "rmsnorm",    "layernorm", "column_sum",
                                    "argmax_rows", "prefix_sum", "gather",    "transpose"};
  if (target == kCudaTargetName) {
    for (const char* name : {"matmul", "histogram", "cross_entropy", "attention_one_query",
                             "stencil2d", "depthwise_conv", "rmsnorm_bf16", "layernorm_fp16",
                             "quantize_fp8", "matmul_bf16", "matmul_fp8"}) {
      names.emplace_back(name);
    }
  }
  return names;
}

// Keeps `count` of the items, spread over all of them. 0: all.
void Thin(std::vector<Item>& items, size_t count) {
  if (count == 0 || count >= items.size()) return;
  std::vector<Item> kept;
  for (size_t i = 0; i < items.size(); ++i) {
    if ((i + 1) * count / items.size() > i * count / items.size()) {
      kept.push_back(std::move(items[i]));
    }
  }
  items = std::move(kept);
}

// The kernels of all problems, problem by problem, mutants and honest ones of a problem in turn.
absl::StatusOr<std::vector<Item>> MakeItems(const Flags& flags,
                                            const std::vector<Problem>& problems) {
  std::vector<Item> mutants;
  for (const Problem& problem : problems) {
    for (Mutant& mutant : flags.target == kCpuTargetName ? testing::CpuMutants(problem)
                                                         : testing::CudaMutants(problem)) {
      mutants.push_back({.problem = &problem, .mutant = std::move(mutant)});
    }
  }
  Thin(mutants, static_cast<size_t>(flags.mutants));
  if (flags.host && flags.target == kCudaTargetName) {
    for (const Problem& problem : problems) {
      for (Mutant& mutant : testing::CudaHostMutants(problem)) {
        mutants.push_back({.problem = &problem, .mutant = std::move(mutant)});
      }
    }
    std::stable_sort(mutants.begin(), mutants.end(),
                     [](const Item& a, const Item& b) { return a.problem < b.problem; });
  }
  std::vector<Item> items;
  size_t next = 0;
  auto honest_left = static_cast<size_t>(flags.honest);
  for (size_t p = 0; p < problems.size(); ++p) {
    const Problem& problem = problems[p];
    const size_t share = honest_left / (problems.size() - p);
    honest_left -= share;
    std::vector<Mutant> honest;
    if (flags.target == kCpuTargetName) {
      const std::vector<Mutant> variants = testing::HonestCpuVariants(problem);
      for (size_t i = 0; i < share; ++i) honest.push_back(variants[i % variants.size()]);
    } else {
      KC_ASSIGN_OR_RETURN(
          honest, testing::HonestCudaKernels(
                      problem, testing::SourcePath("examples/problems/" + problem.name), share));
    }
    size_t end = next;
    while (end < mutants.size() && mutants[end].problem == &problem) ++end;
    const size_t own = end - next;
    size_t given = 0;
    for (size_t i = 0; i < own || given < honest.size(); ++i) {
      if (i < own) items.push_back(std::move(mutants[next + i]));
      const size_t until = i + 1 >= own ? honest.size() : honest.size() * (i + 1) / own;
      for (; given < until; ++given) {
        items.push_back({.problem = &problem, .mutant = std::move(honest[given]), .honest = true});
      }
    }
    next = end;
  }
  return items;
}

void Compile(Target& target, Item& item) {
  const auto compiled = target.Compile({*item.problem, &item.mutant.candidate}, CancelToken());
  if (!compiled.ok()) {
    item.compile_error = compiled.status().ToString();
  } else if (const auto* const error = std::get_if<CompileError>(&compiled->result)) {
    item.compile_error = error->log.empty() ? "no log" : error->log;
  } else {
    item.artifact = std::get<CompileSuccess>(compiled->result).artifact;
  }
}

// Compiles in order on several threads, ahead of the thread that waits.
class Compiling {
 public:
  Compiling(Target& target, std::vector<Item>& items, int threads)
      : target_(target), items_(items), ready_(items.size(), 0) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) {
        for (size_t at = next_++; at < items_.size() && !stop.stop_requested(); at = next_++) {
          Compile(target_, items_[at]);
          const std::lock_guard lock(mutex_);
          ready_[at] = 1;
          compiled_.notify_all();
        }
      });
    }
  }

  // Without threads, compiles the item now.
  void Wait(size_t at) {
    if (threads_.empty()) {
      Compile(target_, items_[at]);
      return;
    }
    std::unique_lock lock(mutex_);
    compiled_.wait(lock, [&] { return ready_[at] != 0; });
  }

 private:
  Target& target_;
  std::vector<Item>& items_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::condition_variable compiled_;
  std::vector<char> ready_;  // protected by mutex_
  std::vector<std::jthread> threads_;
};

int CompileAll(Compiling& compiling, const std::vector<Item>& items) {
  std::map<std::string, int> kinds;
  int compiled = 0;
  int honest = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    compiling.Wait(i);
    if (!items[i].artifact) {
      std::printf("DOES NOT COMPILE %s: %s\n", items[i].Name().c_str(),
                  items[i].compile_error.c_str());
      continue;
    }
    ++compiled;
    if (items[i].honest) {
      ++honest;
    } else {
      ++kinds[items[i].mutant.kind];
    }
  }
  for (const auto& [kind, count] : kinds) std::printf("%4d  %s\n", count, kind.c_str());
  std::printf("compiled %d of %zu: %d mutants of %zu kinds, %d honest\n", compiled, items.size(),
              compiled - honest, kinds.size(), honest);
  return compiled == static_cast<int>(items.size()) ? 0 : 1;
}

struct Tally {
  int all = 0;
  int caught = 0;    // or gained nothing
  int missed = 0;    // or refused, for honest kernels
  int unstable = 0;  // the machine was too noisy
};

void Print(const char* what, const char* caught, const char* missed, const Tally& tally) {
  const int judged = tally.caught + tally.missed;
  std::printf("%s: %d, %s %d (%.2f%% of those decided), %s %d, too noisy %d\n", what, tally.all,
              caught, tally.caught, judged > 0 ? 100.0 * tally.caught / judged : 0.0, missed,
              tally.missed, tally.unstable);
}

absl::StatusOr<Measurement> Measure(Target& target, const Item& item) {
  for (int attempt = 1;; ++attempt) {
    KC_ASSIGN_OR_RETURN(Measurement measurement,
                        target.Measure({*item.problem, item.mutant.candidate, *item.artifact,
                                        MeasureLevel::kScreen},
                                       CancelToken()));
    if (attempt == kAttempts || !std::holds_alternative<EnvironmentUnstable>(measurement.outcome)) {
      return measurement;
    }
  }
}

int MeasureAll(const Flags& flags, Target& target, Compiling& compiling,
               const std::vector<Item>& items) {
  std::ofstream output(flags.output);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Tally mutants;
  Tally honest;
  std::map<std::string, int> ends;
  int failures = 0;
  const auto judge = [&](const Item& item) {
    const double began = seconds();
    if (!item.artifact) {
      ++failures;
      std::printf("DOES NOT COMPILE %s: %s\n", item.Name().c_str(), item.compile_error.c_str());
      return;
    }
    const absl::StatusOr<Measurement> measured = Measure(target, item);
    if (!measured.ok()) {
      ++failures;
      std::printf("NOT MEASURED %s: %s\n", item.Name().c_str(),
                  measured.status().ToString().c_str());
      std::fflush(stdout);
      return;
    }
    const MeasureOutcome& outcome = measured->outcome;
    const auto* const ok = std::get_if<MeasuredOk>(&outcome);
    const bool unstable = std::holds_alternative<EnvironmentUnstable>(outcome);
    Tally& tally = item.honest ? honest : mutants;
    const bool good =
        item.honest ? ok != nullptr
                    : ok == nullptr || (item.mutant.may_be_honest && ok->speedup.value <= kNoGain);
    ++tally.all;
    ++(unstable ? tally.unstable : good ? tally.caught : tally.missed);
    if (!item.honest) ++ends[std::string(OutcomeName(outcome))];
    if (!good && !unstable) {
      std::printf("%s %s: %s\n", item.honest ? "REFUSED" : "MISSED", item.Name().c_str(),
                  MeasurementFeedback(*measured).c_str());
      std::fflush(stdout);
    }
    output << nlohmann::json({{"kernel", item.Name()},
                              {"honest", item.honest},
                              {"outcome", std::string(OutcomeName(outcome))},
                              {"speedup", ok != nullptr ? ok->speedup.value : 0},
                              {"seconds", seconds() - began},
                              {"right", unstable ? "unknown"
                                        : good   ? "yes"
                                                 : "no"}})
                  .dump()
           << "\n"
           << std::flush;
  };
  size_t at = 0;
  for (; at < items.size() && seconds() < flags.seconds; ++at) {
    compiling.Wait(at);
    judge(items[at]);
    if (at + 1 == items.size() || items[at + 1].problem != items[at].problem) {
      std::fprintf(stderr, "%s: %d mutants, %d missed; %d honest, %d refused; %.1f s\n",
                   items[at].problem->name.c_str(), mutants.all, mutants.missed, honest.all,
                   honest.missed, seconds());
    }
  }
  if (at < items.size()) std::printf("out of time: %zu kernels left out\n", items.size() - at);
  for (const auto& [end, count] : ends) std::printf("mutants, %s: %d\n", end.c_str(), count);
  Print("wrong or cheating", "caught", "missed", mutants);
  Print("honest", "measured", "refused", honest);
  if (failures > 0) std::printf("not compiled or not measured: %d\n", failures);
  return mutants.missed + honest.missed + failures > 0 ? 1 : 0;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("How many wrong and cheating kernels a judge catches");
  app.add_option("--target", flags.target, "whose judge")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--problems", flags.problems, "names under examples/problems");
  app.add_option("--honest", flags.honest, "honest kernels to measure, spread over the problems")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--mutants", flags.mutants, "mutants to measure, spread over all; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--host", flags.host, "also mutants with host code; needs nvcc");
  app.add_option("--seconds", flags.seconds, "start no kernel after this time");
  app.add_option("--threads", flags.threads,
                 "compilers; 0: all processors but one for cuda, none ahead of measuring for cpu");
  app.add_flag("--compile-only", flags.compile_only,
               "compile all kernels, print the number by kind, measure nothing");
  app.add_option("--output", flags.output, "file for one JSON line per kernel");
  CLI11_PARSE(app, argc, argv);
  SetLogLevel(LogLevel::kWarning);

  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  int threads = flags.threads;
  // Compilers would disturb the timing of cpu kernels.
  if (threads == 0 && (flags.target == kCudaTargetName || flags.compile_only)) {
    threads = std::max(1, processors - 1);
  }
  const testing::TemporaryFolder folder("judge-mutations");
  const auto target = MakeTarget(flags, std::max(1, threads), folder.path().string());
  if (!target.ok()) {
    std::fprintf(stderr, "%s\n", target.status().ToString().c_str());
    return 1;
  }
  const TargetInfo info = (*target)->Describe();
  if (flags.compile_only ? !info.can_compile : !info.can_measure) {
    std::fprintf(stderr, "the %s target cannot %s here: %s\n", flags.target.c_str(),
                 flags.compile_only ? "compile" : "measure", info.unavailable_reason.c_str());
    return 1;
  }
  std::printf("%s, %s\n", info.device.model.c_str(), info.architecture.c_str());

  std::vector<Problem> problems;
  for (const std::string& name :
       flags.problems.empty() ? DefaultProblems(flags.target) : flags.problems) {
    auto files = ReadProblemFolder(testing::SourcePath("examples/problems/" + name));
    auto problem = files.ok() ? ParseProblem(*std::move(files)) : files.status();
    if (!problem.ok()) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), problem.status().ToString().c_str());
      return 1;
    }
    problems.push_back(*std::move(problem));
  }
  auto items = MakeItems(flags, problems);
  if (!items.ok()) {
    std::fprintf(stderr, "%s\n", items.status().ToString().c_str());
    return 1;
  }
  Compiling compiling(**target, *items, threads);
  return flags.compile_only ? CompileAll(compiling, *items)
                            : MeasureAll(flags, **target, compiling, *items);
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) { return kernelcast::worker::Main(argc, argv); }
