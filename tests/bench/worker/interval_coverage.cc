// Measures how often 95% intervals contain the value of a later, independent measurement.
//
//   bench_interval_coverage --target cuda [--kernels 200] [--finals 30] [--seconds 180] --json FILE
//   bench_interval_coverage --from FILE ...
//
// Draws kernels from the spaces of the example problems, and the reference of each problem as a
// candidate (A/A). Measures all of them at screening level in two successive worker processes, then
// some of them at final level in two more. Each process draws its own inputs and places its own
// memory. Prints how often the earlier interval contains the later value, how often an A/A interval
// contains 1, and the interval widths. Prints the same for intervals that the current SpreadOptions
// give for the same runners, and for intervals of the noise within a runner alone, as in the
// screening of protocols cpu/1 and cuda/1.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/domain/problem.h"
#include "common/process/child_process.h"
#include "services/worker/core/random.h"
#include "services/worker/core/speedup_interval.h"
#include "services/worker/core/statistics.h"
#include "services/worker/cpu/cpu_target.h"
#ifdef KERNELCAST_BENCH_CUDA
#include "services/worker/cuda/target/cuda_target.h"
#endif
#include "tests/support/services.h"
#include "tests/support/space_problems.h"

namespace kernelcast::worker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Options {
  std::string target = "cpu";
  std::string problems;
  std::vector<std::string> only;
  int kernels = 200;
  int references = 2;
  int finals = 30;
  int final_problems = 100;
  int seconds = 180;
  std::string lease = "/tmp/kernelcast-timing.lock";
  std::string json;
  std::vector<std::string> from;
  // Number of the worker process.
  int pass = -1;
  std::string level = "screen";
  std::string cache;
};

// The candidates that each pass measures.
struct Job {
  const Problem* problem = nullptr;
  Candidate candidate;
  bool reference = false;
  int repetition = 0;  // of a reference
  std::optional<Artifact> artifact = {};

  std::string Name() const {
    return reference ? absl::StrCat(problem->name, " reference ", repetition)
                     : absl::StrCat(problem->name, " ", candidate.candidate_id);
  }
};

// The same in every pass.
absl::StatusOr<std::vector<Job>> DrawJobs(const Options& options,
                                          const std::vector<Problem>& problems) {
  std::vector<Job> jobs;
  const size_t each =
      (static_cast<size_t>(options.kernels) + problems.size() - 1) / problems.size();
  for (const Problem& problem : problems) {
    KC_ASSIGN_OR_RETURN(const Candidate reference, ReferenceCandidate(problem, options.target));
    for (int i = 0; i < options.references; ++i) {
      jobs.push_back({&problem, reference, true, i});
    }
    const Space& space = *problem.targets.find(options.target)->second.space;
    std::vector<SpacePoint> points = EnumeratePoints(space);
    Random random(5);
    for (size_t i = 0; i < each && !points.empty(); ++i) {
      const size_t at = random.Below(points.size());
      jobs.push_back({&problem, CandidateFromPoint(space, points[at], problem.problem_id)});
      points.erase(points.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  return jobs;
}

absl::StatusOr<std::unique_ptr<Target>> MakeTarget(const Options& options) {
  if (options.target == kCpuTargetName) {
    CpuTargetOptions with;
    with.cache_directory = options.cache;
    with.include_directories = {testing::SourcePath("common/candidate_abi")};
    with.lease_file = options.lease;
    with.runner.path = testing::ProgramFolder() + "/kernelcast-runner";
    with.runner.uid = 65534;
    KC_ASSIGN_OR_RETURN(std::unique_ptr<Target> target, CpuTarget::Make(std::move(with)));
    return target;
  }
#ifdef KERNELCAST_BENCH_CUDA
  CudaTargetOptions with;
  with.program_folder = testing::ProgramFolder();
  with.cache_directory = options.cache;
  with.compile_processes = static_cast<int>(std::max(1u, std::thread::hardware_concurrency() - 1));
  KC_ASSIGN_OR_RETURN(std::unique_ptr<Target> target, CudaTarget::Make(std::move(with)));
  return target;
#else
  return absl::UnimplementedError("built without the CUDA headers");
#endif
}

void CompileAll(Target& target, std::vector<Job>& jobs) {
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency() - 1); ++i) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < jobs.size(); at = next++) {
        auto compiled = target.Compile({*jobs[at].problem, &jobs[at].candidate}, CancelToken());
        if (!compiled.ok()) continue;
        if (auto* success = std::get_if<CompileSuccess>(&compiled->result)) {
          jobs[at].artifact = std::move(success->artifact);
        }
      }
    });
  }
}

Json ReadLines(const std::string& path) {
  Json lines = Json::array();
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(Json::parse(line));
  }
  return lines;
}

// One worker process: appends a line per measurement to the file. From the second pass on, only
// candidates that were correct in the first pass are measured.
absl::Status RunPass(const Options& options) {
  const int64_t end_ns = Clock::Real().MonotonicNs() + int64_t{options.seconds} * 1'000'000'000;
  KC_ASSIGN_OR_RETURN(const std::vector<Problem> problems,
                      testing::ReadSpaceProblems(options.problems, options.only, options.target));
  KC_ASSIGN_OR_RETURN(std::vector<Job> jobs, DrawJobs(options, problems));
  const bool final_level = options.level == "final";
  if (options.pass > 0) {
    // Measured in the preceding pass; for finals, in the first.
    std::set<std::string> seen;
    for (const Json& line : ReadLines(options.json)) {
      if (line["pass"] == (options.pass == 3 ? 2 : 0)) seen.insert(line["name"]);
    }
    std::erase_if(jobs, [&](const Job& job) { return !seen.contains(job.Name()); });
  }
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<Target> target, MakeTarget(options));
  const TargetInfo info = target->Describe();
  if (!info.can_measure) {
    return absl::UnavailableError(info.unavailable_reason);
  }
  // Problem order changes with each pass, so that each problem is measured at another time of the
  // run.
  Random random(static_cast<uint64_t>(options.pass) + 11);
  std::map<std::string, uint64_t> order;
  for (const Problem& problem : problems) order[problem.name] = random.Next();
  std::stable_sort(jobs.begin(), jobs.end(), [&](const Job& a, const Job& b) {
    return order[a.problem->name] < order[b.problem->name];
  });
  if (final_level) {
    // For some problems one A/A each, plus kernels.
    std::map<std::string, int> taken;
    const int count = std::min(options.final_problems, static_cast<int>(problems.size()));
    const int each = (options.finals + count - 1) / count;
    std::erase_if(jobs, [&](const Job& job) {
      const bool known = taken.contains(job.problem->name);
      if (!known && static_cast<int>(taken.size()) == options.final_problems) return true;
      int& kernels = taken[job.problem->name];
      return job.reference ? job.repetition > 0 : ++kernels > each;
    });
  }
  CompileAll(*target, jobs);
  std::ofstream file(options.json, std::ios::app);
  for (const Job& job : jobs) {
    if (!job.artifact || Clock::Real().MonotonicNs() > end_ns) continue;
    const int64_t start_ns = Clock::Real().MonotonicNs();
    const auto measurement =
        target->Measure({*job.problem, job.candidate, *job.artifact,
                         final_level ? MeasureLevel::kFinal : MeasureLevel::kScreen},
                        CancelToken());
    if (!measurement.ok()) {
      std::fprintf(stderr, "%s: %s\n", job.Name().c_str(), measurement.status().ToString().c_str());
      continue;
    }
    const auto* const ok = std::get_if<MeasuredOk>(&measurement->outcome);
    if (ok == nullptr) continue;
    file << Json{{"pass", options.pass},
                 {"level", options.level},
                 {"device", info.device.model},
                 {"driver", info.device.driver_version},
                 {"protocol", measurement->protocol_version},
                 {"problem", job.problem->name},
                 {"name", job.Name()},
                 {"reference", job.reference},
                 {"value", ok->speedup.value},
                 {"low", ok->speedup.low},
                 {"high", ok->speedup.high},
                 {"within", ok->speedup.within_deviation},
                 {"between", ok->speedup.between_deviation},
                 {"runners", ok->runner_speedups},
                 {"candidate_us", 1e-3 * ok->shapes[0].candidate.median_ns},
                 {"reference_us", 1e-3 * ok->shapes[0].reference.median_ns},
                 {"seconds", 1e-9 * static_cast<double>(Clock::Real().MonotonicNs() - start_ns)}}
                .dump()
         << std::endl;
  }
  return absl::OkStatus();
}

// How often one kind of interval held.
struct Tally {
  int pairs = 0;
  int held = 0;
  std::vector<double> widths;  // half widths, relative

  void Add(double low, double high, double value, double later) {
    ++pairs;
    held += low <= later && later <= high ? 1 : 0;
    widths.push_back(0.5 * (high - low) / value);
  }
  void Print(const std::string& what) const {
    if (pairs == 0) return;
    std::printf("%-64s %4d of %4d = %5.1f%%   half-width %.2f%% median, %.2f%% p90\n", what.c_str(),
                held, pairs, 100.0 * held / pairs, 100 * Median(widths),
                100 * Quantile(widths, 0.9));
  }
};

struct Bounds {
  double low;
  double high;
};
Bounds Recorded(const Json& line) { return {line["low"], line["high"]}; }
// Intervals from the noise within runners alone.
Bounds WithinOnly(const Json& line) {
  const double value = line["value"];
  const double half_width =
      1.96 * line["within"].get<double>() / std::sqrt(static_cast<double>(line["runners"].size()));
  return {value * std::exp(-half_width), value * std::exp(half_width)};
}

// Recomputes the intervals with the current options from the same runners; each pass was one
// worker.
void TellAnew(Json& lines) {
  std::map<int, RunnerSpread> workers;
  for (Json& line : lines) {
    const bool cuda = line["protocol"].get<std::string>().starts_with("cuda");
    const SpreadOptions options = cuda ? SpreadOptions::Cuda() : SpreadOptions::Cpu();
    RunnerSpread& spread = workers.try_emplace(line["pass"].get<int>(), options).first->second;
    const std::string problem = line["problem"];
    const double within = line["within"];
    std::vector<RunnerValue> runners;
    std::vector<double> values;
    for (const double speedup : line["runners"]) {
      runners.push_back({std::log(speedup), within * within});
      values.push_back(std::log(speedup));
    }
    spread.AddReferenceTime(problem, std::log(line["reference_us"].get<double>()));
    const Ratio ratio = SpeedupInterval(runners, spread.Of(problem), options, 0.95);
    spread.Add(problem, values, within * within);
    line["new_low"] = ratio.low;
    line["new_high"] = ratio.high;
  }
}
Bounds Recomputed(const Json& line) { return {line["new_low"], line["new_high"]}; }

void Analyse(const std::vector<std::string>& files) {
  Json lines = Json::array();
  for (const std::string& file : files) {
    Json read = ReadLines(file);
    TellAnew(read);
    lines.insert(lines.end(), read.begin(), read.end());
  }
  std::map<std::string, std::map<int, Json>> by_name;
  for (const Json& line : lines) {
    by_name[line["name"]][line["pass"]] = line;
  }
  std::printf("%zu measurements of %zu kernels on %s\n", lines.size(), by_name.size(),
              lines.empty() ? "nothing" : lines[0]["device"].get<std::string>().c_str());
  for (const auto& [what, bounds] :
       {std::pair{"as recorded", &Recorded}, std::pair{"with the present options", &Recomputed},
        std::pair{"noise within a runner only", &WithinOnly}}) {
    std::map<std::string, Tally> tallies;
    for (const auto& [name, passes] : by_name) {
      for (const auto& [earlier, line] : passes) {
        const Bounds at = bounds(line);
        const double value = line["value"];
        const std::string level = line["level"];
        if (line["reference"].get<bool>()) {
          tallies["2 A/A at " + level + " holds 1"].Add(at.low, at.high, value, 1);
          continue;
        }
        for (const auto& [later, other] : passes) {
          if (later <= earlier || (level == "final" && other["level"] != "final")) continue;
          tallies["1 " + level + " holds the value of a later " + other["level"].get<std::string>()]
              .Add(at.low, at.high, value, other["value"]);
        }
      }
    }
    for (const auto& [key, tally] : tallies) {
      tally.Print(absl::StrCat(what, ": ", key.substr(2)));
    }
  }
  // The data behind the priors of SpreadOptions.
  std::map<std::string, std::vector<double>> spreads;
  std::map<std::string, std::vector<double>> differences;
  for (const auto& [name, passes] : by_name) {
    const std::string problem = passes.begin()->second["problem"];
    for (const auto& [pass, line] : passes) {
      if (line["level"] == "final") spreads[problem].push_back(line["between"]);
    }
    if (passes.contains(0) && passes.contains(1) && !passes.at(0)["reference"].get<bool>()) {
      differences[problem].push_back(std::abs(
          std::log(passes.at(0)["value"].get<double>() / passes.at(1)["value"].get<double>())));
    }
  }
  for (const auto& [problem, values] : differences) {
    std::printf("%-24s screenings differ by %.2f%% (median), %.2f%% (maximum); ", problem.c_str(),
                100 * Median(values), 100 * *std::max_element(values.begin(), values.end()));
    const std::vector<double>& found = spreads[problem];
    std::printf("deviation between runners %.2f%%\n", found.empty() ? 0 : 100 * Median(found));
  }
}

absl::Status Run(const Options& options) {
  if (options.pass >= 0) return RunPass(options);
  if (!options.from.empty()) {
    Analyse(options.from);
    return absl::OkStatus();
  }
  if (options.json.empty()) return absl::InvalidArgumentError("--json or --from is needed");
  const testing::TemporaryFolder folder("interval-coverage");
  // Shares of the time: two screenings, two finals.
  const double shares[] = {0.25, 0.2, 0.275, 0.275};
  for (int pass = 0; pass < (options.finals > 0 ? 4 : 2); ++pass) {
    std::vector<std::string> arguments = {
        "--target",         options.target,
        "--problems",       options.problems,
        "--kernels",        std::to_string(options.kernels),
        "--references",     std::to_string(options.references),
        "--finals",         std::to_string(options.finals),
        "--final-problems", std::to_string(options.final_problems),
        "--lease",          options.lease,
        "--json",           options.json,
        "--pass",           std::to_string(pass),
        "--level",          pass < 2 ? "screen" : "final",
        "--cache",          options.cache.empty() ? folder.path().string() : options.cache,
        "--seconds",        std::to_string(static_cast<int>(shares[pass] * options.seconds))};
    for (const std::string& name : options.only) {
      arguments.insert(arguments.end(), {"--only", name});
    }
    std::string command = fs::read_symlink("/proc/self/exe").string();
    for (const std::string& argument : arguments) absl::StrAppend(&command, " '", argument, "'");
    if (std::system(command.c_str()) != 0) {
      return absl::InternalError(absl::StrCat("pass ", pass, " failed"));
    }
  }
  Analyse({options.json});
  return absl::OkStatus();
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) {
  CLI::App app{"How often intervals hold the value of a later, independent measurement"};
  kernelcast::worker::Options options;
  options.problems = kernelcast::testing::SourcePath("examples/problems");
  app.add_option("--target", options.target, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--problems", options.problems, "Folder of problems")->capture_default_str();
  app.add_option("--only", options.only, "Names of problems");
  app.add_option("--kernels", options.kernels, "Kernels to measure")->capture_default_str();
  app.add_option("--references", options.references, "A/A measurements of each problem")
      ->capture_default_str();
  app.add_option("--finals", options.finals, "Kernels to measure at the final level; 0: none")
      ->capture_default_str();
  app.add_option("--final-problems", options.final_problems, "Problems of these kernels")
      ->capture_default_str();
  app.add_option("--lease", options.lease, "File of the timing lease of target cpu; empty: none")
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "Time limit")->capture_default_str();
  app.add_option("--json", options.json, "File to append one line per measurement to");
  app.add_option("--from", options.from, "Read these files and measure nothing");
  app.add_option("--cache", options.cache, "Folder of compiled kernels");
  app.add_option("--pass", options.pass, "Number of a worker process; set by the benchmark");
  app.add_option("--level", options.level, "Level of a worker process");
  CLI11_PARSE(app, argc, argv);
  if (absl::Status status = kernelcast::worker::Run(options); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
