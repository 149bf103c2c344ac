// Measures the throughput of judging device CUDA candidates and the repeatability of results.
//
//   bench_gpu_judge [--problems DIR] [--only NAME ...] [--candidates 40] [--json FILE]
//   bench_gpu_judge --repeat 20 [--kernels 30] ...
//   bench_gpu_judge --soak 600 ...
//
// The first form compiles, verifies and times points of the problems' spaces, each for the first
// time; compilers run ahead of the single measuring thread. The second measures each kernel
// repeatedly, each time in a fresh runner, and prints the coefficient of variation of its speedup
// and of its time. The third judges candidates in random order for this many seconds, including
// some that trap, write out of bounds or never end. It compares each verdict and figure with the
// candidate's first one and prints the memory in use.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/domain/problem.h"
#include "services/worker/core/random.h"
#include "services/worker/core/statistics.h"
#include "services/worker/cuda/api/nvml_api.h"
#include "services/worker/cuda/target/cuda_target.h"
#include "tests/bench/gpu/variation.h"
#include "tests/support/services.h"
#include "tests/support/space_problems.h"

namespace kernelcast::worker {
namespace {

namespace fs = std::filesystem;

using testing::Variation;

struct Options {
  std::string problems;
  std::vector<std::string> only;
  int candidates = 40;
  int repeat = 0;
  int soak_seconds = 0;
  int kernels = 30;
  std::string level = "screen";
  double half_width = CudaMeasureOptions().screen.half_width;
  std::string json;
};

struct Item {
  const Problem* problem = nullptr;
  Candidate candidate;
  std::optional<Artifact> artifact;  // empty: does not compile
  int64_t compile_ns = 0;
};

std::vector<Item> DrawCandidates(const Problem& problem, size_t count, uint64_t seed) {
  const Space& space = *problem.targets.find(kCudaTargetName)->second.space;
  std::vector<SpacePoint> points = EnumeratePoints(space);
  Random random(seed);
  std::vector<Item> items;
  while (!points.empty() && items.size() < count) {
    const size_t at = random.Below(points.size());
    Item item;
    item.problem = &problem;
    item.candidate = CandidateFromPoint(space, points[at], problem.problem_id);
    items.push_back(std::move(item));
    points.erase(points.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return items;
}

absl::Status CompileOne(CudaTarget& target, Item& item) {
  const CancelToken cancel;
  const int64_t start_ns = Clock::Real().MonotonicNs();
  KC_ASSIGN_OR_RETURN(CompileResult compiled,
                      target.Compile({*item.problem, &item.candidate}, cancel));
  item.compile_ns = Clock::Real().MonotonicNs() - start_ns;
  if (auto* success = std::get_if<CompileSuccess>(&compiled.result)) {
    item.artifact = std::move(success->artifact);
  }
  return absl::OkStatus();
}

absl::Status Throughput(const Options& options, CudaTarget& target,
                        const std::vector<Problem>& problems, int compilers, std::ofstream& json) {
  std::printf("%-20s %5s %5s %5s | %8s | %7s %7s %7s %7s %7s | %7s %9s\n", "problem", "cand", "ok",
              "other", "cand / s", "prepare", "load", "check", "timing", "fresh", "compile",
              "kernel us");
  int64_t all_ns = 0;
  size_t all = 0;
  for (const Problem& problem : problems) {
    std::vector<Item> items =
        DrawCandidates(problem, static_cast<size_t>(options.candidates) + 1, 1);
    if (items.size() < 2) continue;
    // The first candidate pays for drawing inputs and running the oracle, so it is excluded.
    KC_RETURN_IF_ERROR(CompileOne(target, items[0]));
    const CancelToken cancel;
    int64_t prepare_ns = Clock::Real().MonotonicNs();
    if (items[0].artifact) {
      const auto first = target.Measure(
          {problem, items[0].candidate, *items[0].artifact, MeasureLevel::kScreen}, cancel);
      if (!first.ok()) {
        std::printf("%-20s %s\n", problem.name.c_str(), first.status().ToString().c_str());
        continue;
      }
    }
    prepare_ns = Clock::Real().MonotonicNs() - prepare_ns;

    std::mutex mutex;
    std::condition_variable compiled;
    std::vector<char> ready(items.size(), 0);
    absl::Status failure;
    std::atomic<size_t> next = 1;
    const int64_t start_ns = Clock::Real().MonotonicNs();
    std::vector<std::jthread> threads;
    for (int i = 0; i < compilers; ++i) {
      threads.emplace_back([&] {
        for (size_t at = next++; at < items.size(); at = next++) {
          const absl::Status status = CompileOne(target, items[at]);
          const std::lock_guard lock(mutex);
          if (!status.ok()) failure = status;
          ready[at] = 1;
          compiled.notify_all();
        }
      });
    }
    CudaJudgeTimes sum;
    std::vector<double> kernels_us;
    double compile_ms = 0;
    size_t ok = 0;
    for (size_t at = 1; at < items.size(); ++at) {
      {
        std::unique_lock lock(mutex);
        compiled.wait(lock, [&] { return ready[at] != 0; });
        KC_RETURN_IF_ERROR(failure);
      }
      compile_ms += 1e-6 * static_cast<double>(items[at].compile_ns);
      if (!items[at].artifact) continue;
      KC_ASSIGN_OR_RETURN(
          const Measurement measurement,
          target.Measure({problem, items[at].candidate, *items[at].artifact, MeasureLevel::kScreen},
                         cancel));
      sum.start_ns += target.last_times().judge.start_ns;
      sum.check_ns += target.last_times().judge.check_ns;
      sum.timing_ns += target.last_times().judge.timing_ns;
      sum.fresh_ns += target.last_times().judge.fresh_ns;
      if (const auto* measured = std::get_if<MeasuredOk>(&measurement.outcome)) {
        ++ok;
        kernels_us.push_back(1e-3 * measured->shapes[0].candidate.median_ns);
      }
    }
    const int64_t elapsed_ns = Clock::Real().MonotonicNs() - start_ns;
    threads.clear();
    const auto count = static_cast<double>(items.size() - 1);
    const double kernel_us = kernels_us.empty() ? 0 : Median(kernels_us);
    const double rate = 1e9 * count / static_cast<double>(elapsed_ns);
    const auto each_ms = [&](int64_t ns) { return 1e-6 * static_cast<double>(ns) / count; };
    std::printf("%-20s %5zu %5zu %5zu | %8.1f | %7.0f %7.2f %7.2f %7.2f %7.2f | %7.1f %9.1f\n",
                problem.name.c_str(), items.size() - 1, ok, items.size() - 1 - ok, rate,
                1e-6 * static_cast<double>(prepare_ns), each_ms(sum.start_ns),
                each_ms(sum.check_ns), each_ms(sum.timing_ns), each_ms(sum.fresh_ns),
                compile_ms / count, kernel_us);
    std::fflush(stdout);
    if (json) {
      json << "{\"bench\": \"throughput\", \"problem\": \"" << problem.name
           << "\", \"candidates\": " << items.size() - 1 << ", \"ok\": " << ok
           << ", \"per_second\": " << rate << ", \"prepare_ms\": " << 1e-6 * prepare_ns
           << ", \"load_ms\": " << each_ms(sum.start_ns)
           << ", \"check_ms\": " << each_ms(sum.check_ns)
           << ", \"timing_ms\": " << each_ms(sum.timing_ns)
           << ", \"fresh_ms\": " << each_ms(sum.fresh_ns)
           << ", \"compile_ms\": " << compile_ms / count << ", \"kernel_us\": " << kernel_us
           << "}\n";
    }
    all_ns += elapsed_ns;
    all += items.size() - 1;
  }
  std::printf("all: %zu candidates in %.2f s, %.1f per second\n", all,
              1e-9 * static_cast<double>(all_ns),
              1e9 * static_cast<double>(all) / static_cast<double>(all_ns));
  return absl::OkStatus();
}

absl::Status Repeatability(const Options& options, CudaTarget& target,
                           const std::vector<Problem>& problems, std::ofstream& json) {
  const MeasureLevel level =
      options.level == "final" ? MeasureLevel::kFinal : MeasureLevel::kScreen;
  std::printf("%-20s %-34s %9s %9s %9s %9s %9s\n", "problem", "candidate", "time us", "speedup",
              "interval", "CV ratio", "CV time");
  const size_t each =
      (static_cast<size_t>(options.kernels) + problems.size() - 1) / problems.size();
  std::vector<double> long_variations;
  int kernels = 0;
  for (const Problem& problem : problems) {
    size_t taken = 0;
    for (Item& item : DrawCandidates(problem, 8 * each, 2)) {
      if (taken == each || kernels == options.kernels) break;
      KC_RETURN_IF_ERROR(CompileOne(target, item));
      if (!item.artifact) continue;
      std::vector<double> ratios;
      std::vector<double> times_us;
      std::vector<double> half_widths;
      bool good = true;
      for (int run = 0; run < options.repeat && good; ++run) {
        const CancelToken cancel;
        const auto measurement =
            target.Measure({problem, item.candidate, *item.artifact, level}, cancel);
        if (!measurement.ok()) {
          std::printf("%-20s %s\n", problem.name.c_str(), measurement.status().ToString().c_str());
          return measurement.status();
        }
        const auto* ok = std::get_if<MeasuredOk>(&measurement->outcome);
        good = ok != nullptr;
        if (good) {
          ratios.push_back(ok->speedup.value);
          times_us.push_back(1e-3 * ok->shapes[0].candidate.median_ns);
          half_widths.push_back(RelativeHalfWidth(ok->speedup));
        }
      }
      if (!good) continue;
      ++taken;
      ++kernels;
      const double time_us = Median(times_us);
      std::printf("%-20s %-34s %9.2f %9.3f %8.3f%% %8.3f%% %8.3f%%\n", problem.name.c_str(),
                  item.candidate.candidate_id.c_str(), time_us, Median(ratios),
                  100 * Median(half_widths), 100 * Variation(ratios), 100 * Variation(times_us));
      std::fflush(stdout);
      if (time_us >= 20) long_variations.push_back(Variation(ratios));
      if (json) {
        json << "{\"bench\": \"repeatability\", \"level\": \"" << options.level
             << "\", \"problem\": \"" << problem.name << "\", \"candidate_id\": \""
             << item.candidate.candidate_id << "\", \"runs\": " << ratios.size()
             << ", \"time_us\": " << time_us << ", \"speedup\": " << Median(ratios)
             << ", \"half_width\": " << Median(half_widths)
             << ", \"cv_ratio\": " << Variation(ratios) << ", \"cv_time\": " << Variation(times_us)
             << ", \"speedups\": [" << absl::StrJoin(ratios, ", ") << "]}" << std::endl;
      }
    }
  }
  if (!long_variations.empty()) {
    std::printf(
        "%zu kernels of 20 us and more: CV of the speedup %.3f%% in the median, %.3f%% at "
        "worst\n",
        long_variations.size(), 100 * Median(long_variations),
        100 * *std::max_element(long_variations.begin(), long_variations.end()));
  }
  return absl::OkStatus();
}

// The problem's reference with a planted fault.
Candidate Hostile(const Problem& problem, const std::string& deed) {
  Candidate candidate = ReferenceCandidate(problem, kCudaTargetName).value();
  const size_t kernel = candidate.source.find("__global__");
  const size_t body = candidate.source.find('{', candidate.source.find(')', kernel));
  candidate.source.insert(body + 1, deed);
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

// Memory of this process and all its children.
double ResidentMib() {
  double pages = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream stat(entry.path() / "stat");
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    const size_t close = text.rfind(')');
    if (close == std::string::npos) continue;
    if (std::stoi(name) != getpid() && std::atoi(text.c_str() + close + 4) != getpid()) continue;
    std::ifstream statm(entry.path() / "statm");
    double total = 0;
    double resident = 0;
    double shared = 0;
    statm >> total >> resident >> shared;
    pages += resident - shared;
  }
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double DeviceMib(const std::string& uuid) {
  const auto nvml = LoadNvmlApi();
  nvml::DeviceHandle device = nullptr;
  nvml::Memory memory{};
  if (!nvml.ok() || (*nvml)->DeviceGetHandleByUuid(uuid.c_str(), &device) != nvml::kSuccess ||
      (*nvml)->DeviceGetMemoryInfo(device, &memory) != nvml::kSuccess) {
    return 0;
  }
  return static_cast<double>(memory.used) / (1 << 20);
}

absl::Status Soak(const Options& options, CudaTarget& target, const std::vector<Problem>& problems,
                  const std::string& uuid, std::ofstream& json) {
  struct Seen {
    std::string outcome;
    Ratio speedup;
  };
  std::map<std::string, Seen> first;
  std::map<std::string, int> outcomes;
  Random random(7);
  int judged = 0;
  int compared = 0;
  int other_verdict = 0;
  std::vector<double> deviations;
  const int64_t start_ns = Clock::Real().MonotonicNs();
  const auto seconds = [&] {
    return 1e-9 * static_cast<double>(Clock::Real().MonotonicNs() - start_ns);
  };
  double next_line = 0;
  std::printf("%8s %8s %12s %12s %9s %9s\n", "seconds", "judged", "host MiB", "device MiB",
              "compared", "other");
  for (size_t turn = 0; seconds() < options.soak_seconds; ++turn) {
    const Problem& problem = problems[turn % problems.size()];
    std::vector<Item> items = DrawCandidates(problem, 12, 3);
    for (const char* deed : {" __trap(); ", " *(volatile int*)16 = 1; "}) {
      Item item;
      item.problem = &problem;
      item.candidate = Hostile(problem, deed);
      items.push_back(std::move(item));
    }
    if (turn % (2 * problems.size()) == 0) {
      Item item;
      item.problem = &problem;
      item.candidate = Hostile(problem, " for (volatile int i = 0; i < 2; i = 0) {} ");
      items.push_back(std::move(item));
    }
    for (Item& item : items) KC_RETURN_IF_ERROR(CompileOne(target, item));
    for (int i = 0; i < 50 && seconds() < options.soak_seconds; ++i) {
      // The last one, which hangs, is used at most once.
      const Item& item = items[i == 0 ? items.size() - 1 : random.Below(14)];
      if (!item.artifact) continue;
      const CancelToken cancel;
      KC_ASSIGN_OR_RETURN(
          const Measurement measurement,
          target.Measure({problem, item.candidate, *item.artifact, MeasureLevel::kScreen}, cancel));
      ++judged;
      const std::string outcome(OutcomeName(measurement.outcome));
      ++outcomes[outcome];
      const Ratio* const speedup = MeasuredSpeedup(measurement);
      const auto [seen, is_new] = first.try_emplace(item.candidate.candidate_id);
      if (is_new) {
        seen->second.outcome = outcome;
        if (speedup != nullptr) seen->second.speedup = *speedup;
        continue;
      }
      ++compared;
      if (seen->second.outcome != outcome) {
        ++other_verdict;
        std::printf("%s of %s: %s, before %s\n", item.candidate.candidate_id.c_str(),
                    problem.name.c_str(), MeasurementFeedback(measurement).c_str(),
                    seen->second.outcome.c_str());
      } else if (speedup != nullptr) {
        deviations.push_back(std::abs(speedup->value / seen->second.speedup.value - 1));
      }
    }
    if (seconds() >= next_line) {
      next_line = seconds() + options.soak_seconds / 20.0;
      std::printf("%8.0f %8d %12.1f %12.0f %9d %9d\n", seconds(), judged, ResidentMib(),
                  DeviceMib(uuid), compared, other_verdict);
      std::fflush(stdout);
    }
  }
  std::sort(deviations.begin(), deviations.end());
  for (const auto& [outcome, count] : outcomes) std::printf("%s %d, ", outcome.c_str(), count);
  if (!deviations.empty()) {
    const auto at = [&](double share) {
      return 100 *
             deviations[static_cast<size_t>(share * static_cast<double>(deviations.size() - 1))];
    };
    std::printf(
        "\n%d judged in %.0f s, %.1f per second; %d compared with the first time: %d with "
        "another verdict; speedups differ by %.2f%% (median), %.2f%% (95th percentile), "
        "%.2f%% (most)\n",
        judged, seconds(), judged / seconds(), compared, other_verdict, at(0.5), at(0.95), at(1));
    if (json) {
      json << "{\"bench\": \"soak\", \"seconds\": " << seconds() << ", \"judged\": " << judged
           << ", \"compared\": " << compared << ", \"other_verdict\": " << other_verdict
           << ", \"deviation_median\": " << at(0.5) / 100
           << ", \"deviation_p95\": " << at(0.95) / 100 << ", \"deviation_most\": " << at(1) / 100
           << "}\n";
    }
  }
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  const testing::TemporaryFolder folder("gpu-judge");
  CudaTargetOptions with;
  with.program_folder = testing::ProgramFolder();
  with.cache_directory = folder.path().string();
  with.compile_processes = static_cast<int>(std::max(1u, std::thread::hardware_concurrency() - 1));
  with.measure.screen.half_width = options.half_width;
  if (options.repeat > 0) {
    with.candidates_per_runner = 1;
  }
  const int compilers = with.compile_processes;
  KC_ASSIGN_OR_RETURN(const auto target, CudaTarget::Make(std::move(with)));
  const TargetInfo info = target->Describe();
  if (!info.can_measure) {
    return absl::UnavailableError(info.unavailable_reason);
  }
  std::printf("%s, driver %s, %s; %s\n", info.device.model.c_str(),
              info.device.driver_version.c_str(), info.architecture.c_str(),
              info.toolchain.c_str());
  KC_ASSIGN_OR_RETURN(
      const std::vector<Problem> problems,
      testing::ReadSpaceProblems(options.problems, options.only, std::string(kCudaTargetName)));
  std::ofstream json;
  if (!options.json.empty()) json.open(options.json, std::ios::app);
  if (options.soak_seconds > 0) return Soak(options, *target, problems, info.device.uuid, json);
  return options.repeat > 0 ? Repeatability(options, *target, problems, json)
                            : Throughput(options, *target, problems, compilers, json);
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) {
  CLI::App app{"Throughput of judging, and repeatability of its figures"};
  kernelcast::worker::Options options;
  options.problems = kernelcast::testing::SourcePath("examples/problems");
  app.add_option("--problems", options.problems, "Folder of problems")->capture_default_str();
  app.add_option("--only", options.only, "Names of problems");
  app.add_option("--candidates", options.candidates, "Candidates per problem")
      ->capture_default_str();
  app.add_option("--repeat", options.repeat, "Measurements of each kernel, in fresh runners");
  app.add_option("--soak", options.soak_seconds,
                 "Seconds for which to judge all kinds of candidates");
  app.add_option("--kernels", options.kernels, "Kernels to repeat")->capture_default_str();
  app.add_option("--level", options.level, "screen or final")
      ->check(CLI::IsMember({"screen", "final"}))
      ->capture_default_str();
  app.add_option("--half-width", options.half_width,
                 "Target half-width of screening intervals, relative to the speedup")
      ->capture_default_str();
  app.add_option("--json", options.json, "File to append one line per figure to");
  CLI11_PARSE(app, argc, argv);
  if (absl::Status status = kernelcast::worker::Run(options); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
