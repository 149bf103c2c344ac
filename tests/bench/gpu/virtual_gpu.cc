// Runs the virtual GPU on every point of the example problems' CUDA spaces. Reports how many it
// covers, how long that takes, and how its estimates rank compared with H200 measurements. Nothing
// here is fitted to the measurements.
//
//   bench_virtual_gpu [--problems DIR] [--only NAME ...] [--records DIR] [--ptx DIR]
//                     [--gpu "NVIDIA H200"] [--list] [--findings] [--add]
//
// Findings on points that are correct on an H200 are false positives and are listed.
//
// --ptx DIR keeps NVRTC's output, so that another run needs no compiler. --add writes the
// simulations into their records, as compiling now reports them.

#include <time.h>
#include <zlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/domain/facts.h"
#include "common/domain/problem.h"
#include "common/domain/scoring.h"
#include "services/worker/cuda/compiler/simulation_plan.h"
#include "services/worker/virtual_gpu/estimate/estimate.h"
#include "services/worker/virtual_gpu/estimate/launch_facts.h"
#include "services/worker/virtual_gpu/execute/simulator.h"
#include "services/worker/virtual_gpu/parse/parser.h"
#include "tests/bench/gpu/ptx_source.h"

namespace kernelcast::worker {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string problems = KERNELCAST_SOURCE_DIR "/examples/problems";
  std::string records = KERNELCAST_SOURCE_DIR "/data/measured/nvidia-h200/spaces";
  std::string ptx;
  std::string gpu = "NVIDIA H200";
  std::string architecture = "sm_90a";
  std::vector<std::string> only;
  bool list = false;
  bool findings = false;
  bool add = false;
};

// CPU time of this process; other processes do not count.
double ProcessorMs() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

std::string KeyOf(const std::vector<std::pair<std::string, std::string>>& tunables) {
  std::string key;
  for (const auto& [name, value] : tunables) absl::StrAppend(&key, name, "=", value, " ");
  return key;
}

// Medians in ns of the correct points, by their tunables.
absl::StatusOr<std::map<std::string, double>> ReadMeasured(const std::string& path) {
  KC_ASSIGN_OR_RETURN(const std::string content, ReadGzipFile(path));
  std::map<std::string, double> measured;
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_discarded()) return absl::DataLossError(absl::StrCat(path, " is damaged"));
    const auto& evaluation = record.at("evaluation");
    if (!evaluation.contains("measured") || !evaluation["measured"].contains("ok")) continue;
    std::vector<std::pair<std::string, std::string>> tunables;
    for (const auto& tunable : record.at("candidate").at("tunables")) {
      tunables.emplace_back(tunable.at("name"), tunable.at("value"));
    }
    double ns = 0;
    for (const auto& shape : evaluation["measured"]["ok"].at("shapes")) {
      ns += shape.at("candidate").at("median_ns").get<double>();
    }
    measured[KeyOf(tunables)] = ns;
  }
  return measured;
}

struct Point {
  std::string key;
  double measured_ns = 0;  // 0: was not correct
  double estimated_ns = 0;
  double largest_ns = 0;  // of the single resources, summed over launches
  std::string not_covered;
  double simulated_ms = 0;
  double checked_ms = 0;
  std::vector<std::string> findings;
  bool checked = false;  // all launches, for at least one shape
  int64_t steps = 0;
  std::vector<virtual_gpu::LaunchEstimate> launches;
  std::vector<virtual_gpu::LaunchCounts> counts;
  nlohmann::ordered_json simulations = nlohmann::ordered_json::array();  // as in CompileFacts
};

// Five digits exceed the accuracy of an estimate and pack well.
double Rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.5g", value);
  return std::strtod(text, nullptr);
}

nlohmann::ordered_json SimulationJson(const virtual_gpu::GpuModel& gpu, const Point& point) {
  nlohmann::ordered_json launches = nlohmann::ordered_json::array();
  for (size_t k = 0; k < point.launches.size(); ++k) {
    nlohmann::ordered_json launch = {{"kernel", point.counts[k].kernel}};
    if (point.counts[k].not_covered.empty()) {
      nlohmann::ordered_json& values = launch["values"];
      for (const double value : virtual_gpu::LaunchFacts(point.counts[k], point.launches[k])) {
        values.push_back(Rounded(value));
      }
    } else {
      launch["not_covered"] = point.counts[k].not_covered;
    }
    launches.push_back(std::move(launch));
  }
  return {{"schema", std::string(kCudaSimulationSchemaId)},
          {"gpu", std::string(gpu.name)},
          {"launches", std::move(launches)}};
}

absl::StatusOr<Point> Simulate(const Options& options, const virtual_gpu::GpuModel& gpu,
                               const Problem& problem, const Candidate& candidate,
                               PtxSource& source) {
  Point point;
  KC_ASSIGN_OR_RETURN(const PtxSource::Compiled compiled, source.Compile(problem.name, candidate));
  static_cast<void>(options);
  for (const AxisValues& axes : problem.targets.at(std::string(kCudaTargetName)).bench_shapes) {
    KC_ASSIGN_OR_RETURN(const SimulationPlan plan,
                        PlanSimulation(problem, candidate.launches, candidate.workspace_bytes,
                                       candidate.tunables, axes, compiled.cubin));
    const double start_ms = ProcessorMs();
    const virtual_gpu::Program program = virtual_gpu::ParseProgram(compiled.ptx);
    point.counts = virtual_gpu::Simulate(program, plan.buffers, plan.launches);
    point.launches = virtual_gpu::Estimate(gpu, plan.buffers, point.counts, plan.resources);
    point.simulated_ms += ProcessorMs() - start_ms;
    for (size_t k = 0; k < point.launches.size(); ++k) {
      point.estimated_ns += point.launches[k].total_ns;
      point.largest_ns +=
          *std::max_element(point.launches[k].ns.begin(), point.launches[k].ns.end());
      point.steps += point.counts[k].steps;
      if (!point.counts[k].not_covered.empty()) {
        point.not_covered = absl::StrCat(point.counts[k].kernel, ": ", point.counts[k].not_covered);
      }
    }
    point.simulations.push_back(SimulationJson(gpu, point));
  }
  const virtual_gpu::Program program = virtual_gpu::ParseProgram(compiled.ptx);
  int64_t steps = virtual_gpu::kCheckSteps;
  const double start_ms = ProcessorMs();
  for (const AxisValues& axes :
       ShapesToCheck(problem, problem.targets.at(std::string(kCudaTargetName)))) {
    const auto plan = PlanSimulation(problem, candidate.launches, candidate.workspace_bytes,
                                     candidate.tunables, axes, compiled.cubin);
    if (!plan.ok()) continue;
    bool all = true;
    for (const virtual_gpu::LaunchCheck& check : virtual_gpu::Check(
             program, plan->buffers, plan->launches, virtual_gpu::CheckLimits(steps))) {
      steps -= check.steps;
      all = all && check.not_checked.empty();
      for (const virtual_gpu::LaunchFinding& finding : check.findings) {
        point.findings.push_back(
            absl::StrCat(std::string(FindingName(static_cast<FindingKind>(finding.fault))), " at ",
                         plan->shape, ": ", finding.detail));
      }
    }
    point.checked = point.checked || all;
  }
  point.checked_ms = ProcessorMs() - start_ms;
  return point;
}

// Writes the simulations of the candidates and the reference into the records at `path`.
absl::Status AddToRecords(const std::string& path, const std::vector<Point>& points,
                          const Point& reference) {
  using Json = nlohmann::ordered_json;
  std::map<std::string, const Json*> simulations;
  for (const Point& point : points) simulations.emplace(point.key, &point.simulations);
  KC_ASSIGN_OR_RETURN(const std::string content, ReadGzipFile(path));
  std::string added;
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    Json record = Json::parse(line, nullptr, false);
    if (record.is_discarded()) return absl::DataLossError(absl::StrCat(path, " is damaged"));
    std::vector<std::pair<std::string, std::string>> tunables;
    for (const auto& tunable : record.at("candidate").at("tunables")) {
      tunables.emplace_back(tunable.at("name"), tunable.at("value"));
    }
    const auto found = simulations.find(KeyOf(tunables));
    // A point that did not compile has no facts.
    if (found != simulations.end() && record.contains("facts") &&
        record.contains("reference_facts")) {
      record["facts"]["simulations"] = *found->second;
      record["reference_facts"]["simulations"] = reference.simulations;
    }
    absl::StrAppend(&added, record.dump(), "\n");
  }
  const std::string part = path + ".part";
  const gzFile file = gzopen(part.c_str(), "wb9");
  if (file == nullptr) return absl::NotFoundError(absl::StrCat("cannot write ", part));
  const bool written = gzwrite(file, added.data(), static_cast<unsigned>(added.size())) ==
                       static_cast<int>(added.size());
  if (gzclose(file) != Z_OK || !written) {
    return absl::DataLossError(absl::StrCat("cannot write ", part));
  }
  fs::rename(part, path);
  return absl::OkStatus();
}

std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t k = i; k < end; ++k) ranks[order[k]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return ranks;
}

double Spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = Ranks(a);
  const std::vector<double> y = Ranks(b);
  const double mean = static_cast<double>(x.size() - 1) / 2;
  double xy = 0;
  double xx = 0;
  double yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void List(const Point& point) {
  std::printf("  %9.1f %9.1f us %6.2f ms, checks %6.2f ms %7lld  %s %s\n", point.measured_ns / 1e3,
              point.estimated_ns / 1e3, point.simulated_ms, point.checked_ms,
              static_cast<long long>(point.steps), point.key.c_str(), point.not_covered.c_str());
  for (size_t k = 0; k < point.launches.size(); ++k) {
    std::printf("      %s:", point.counts[k].kernel.c_str());
    for (int r = 0; r < virtual_gpu::kResources; ++r) {
      const double us = point.launches[k].ns[static_cast<size_t>(r)] / 1e3;
      if (us > 0.5)
        std::printf(" %s %.1f", std::string(Name(static_cast<virtual_gpu::Resource>(r))).c_str(),
                    us);
    }
    std::printf("  (waves %.2f, resident %.0f, %d blocks, %d warps)\n", point.launches[k].waves,
                point.launches[k].blocks_per_multiprocessor, point.counts[k].sampled_blocks,
                point.counts[k].sampled_warps);
  }
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

int Run(const Options& options) {
  const virtual_gpu::GpuModel* gpu = virtual_gpu::FindGpuModel(options.gpu, options.architecture);
  if (gpu == nullptr) return Fail(absl::NotFoundError("no such GPU"));
  PtxSource source(options.ptx, options.architecture);
  std::vector<double> correlations;
  std::vector<double> times;
  std::printf("%-22s %6s %8s %9s %9s %9s %8s %8s  %s\n", "problem", "points", "covered", "spearman",
              "largest", "top 10%", "ms", "most ms", "log2 error (median)");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(options.problems)) {
    if (fs::exists(entry.path() / "space" / "cuda.yaml")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  std::map<std::string, int> reasons;
  int right_points = 0;
  int wrong_points = 0;
  int right_found = 0;
  int wrong_found = 0;
  int checked = 0;
  double most_checked_ms = 0;
  for (const std::string& name : names) {
    if (!options.only.empty() &&
        std::find(options.only.begin(), options.only.end(), name) == options.only.end()) {
      continue;
    }
    auto files = ReadProblemFolder(absl::StrCat(options.problems, "/", name));
    if (!files.ok()) return Fail(files.status());
    const auto problem = ParseProblem(*std::move(files));
    if (!problem.ok()) return Fail(problem.status());
    const auto measured = ReadMeasured(absl::StrCat(options.records, "/", name, ".jsonl.gz"));
    if (!measured.ok()) return Fail(measured.status());
    const Space& space = *problem->targets.at(std::string(kCudaTargetName)).space;
    std::vector<Point> points;
    for (const SpacePoint& at : EnumeratePoints(space)) {
      const Candidate candidate = CandidateFromPoint(space, at, problem->problem_id);
      auto point = Simulate(options, *gpu, *problem, candidate, source);
      if (!point.ok()) return Fail(point.status());
      std::vector<std::pair<std::string, std::string>> tunables;
      for (const Tunable& tunable : candidate.tunables) {
        tunables.emplace_back(tunable.name, tunable.value);
      }
      point->key = KeyOf(tunables);
      if (const auto found = measured->find(point->key); found != measured->end()) {
        point->measured_ns = found->second;
      }
      points.push_back(*std::move(point));
    }
    if (options.add) {
      const auto reference = ReferenceCandidate(*problem, kCudaTargetName);
      if (!reference.ok()) return Fail(reference.status());
      const auto simulated = Simulate(options, *gpu, *problem, *reference, source);
      if (!simulated.ok()) return Fail(simulated.status());
      const absl::Status added =
          AddToRecords(absl::StrCat(options.records, "/", name, ".jsonl.gz"), points, *simulated);
      if (!added.ok()) return Fail(added);
    }
    for (const Point& point : points) {
      const bool right = point.measured_ns > 0;
      checked += point.checked ? 1 : 0;
      most_checked_ms = std::max(most_checked_ms, point.checked_ms);
      (right ? right_points : wrong_points) += 1;
      if (point.findings.empty()) continue;
      (right ? right_found : wrong_found) += 1;
      if (right || options.findings) {
        std::printf("  %s, %s: %s\n", right ? "right" : "not right", point.key.c_str(),
                    point.findings.front().c_str());
      }
    }
    std::vector<double> truth;
    std::vector<double> estimates;
    std::vector<double> largest;
    std::vector<double> ms;
    std::vector<double> errors;
    size_t covered = 0;
    for (const Point& point : points) {
      ms.push_back(point.simulated_ms);
      if (!point.not_covered.empty()) {
        ++reasons[absl::StrCat(name, " ", point.not_covered)];
        continue;
      }
      ++covered;
      if (point.measured_ns <= 0) continue;
      truth.push_back(point.measured_ns);
      estimates.push_back(point.estimated_ns);
      largest.push_back(point.largest_ns);
      errors.push_back(std::abs(std::log2(point.estimated_ns / point.measured_ns)));
    }
    // The best point found when only the tenth with the fastest estimates is measured.
    double top = 0;
    if (!truth.empty()) {
      std::vector<size_t> order(truth.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::sort(order.begin(), order.end(),
                [&](size_t a, size_t b) { return estimates[a] < estimates[b]; });
      double best = 1e300;
      for (size_t i = 0; i < std::max<size_t>(1, (order.size() + 9) / 10); ++i) {
        best = std::min(best, truth[order[i]]);
      }
      top = *std::min_element(truth.begin(), truth.end()) / best;
    }
    const double correlation = Spearman(truth, estimates);
    correlations.push_back(correlation);
    times.insert(times.end(), ms.begin(), ms.end());
    std::printf("%-22s %6zu %8zu %9.3f %9.3f %9.3f %8.2f %8.2f  %.2f\n", name.c_str(),
                points.size(), covered, correlation, Spearman(truth, largest), top, Median(ms),
                *std::max_element(ms.begin(), ms.end()), Median(errors));
    if (options.list) {
      std::sort(points.begin(), points.end(),
                [](const Point& a, const Point& b) { return a.measured_ns < b.measured_ns; });
      for (const Point& point : points) List(point);
    }
  }
  std::printf("median Spearman %.3f, least %.3f; ms: median %.2f, most %.2f\n",
              Median(correlations), *std::min_element(correlations.begin(), correlations.end()),
              Median(times), *std::max_element(times.begin(), times.end()));
  std::printf(
      "findings: %d of %d correct points, %d of %d incorrect points; %d checked completely, "
      "most %.2f ms\n",
      right_found, right_points, wrong_found, wrong_points, checked, most_checked_ms);
  for (const auto& [reason, count] : reasons) {
    std::printf("not covered, %d points: %s\n", count, reason.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) {
  kernelcast::worker::Options options;
  CLI::App app("Prints how the virtual GPU's estimates rank the points of the CUDA spaces.");
  app.add_option("--problems", options.problems, "Folder of problems");
  app.add_option("--records", options.records, "Folder of measured PROBLEM.jsonl.gz");
  app.add_option("--ptx", options.ptx, "Folder to keep PTX in");
  app.add_option("--gpu", options.gpu, "GPU model");
  app.add_option("--architecture", options.architecture, "Architecture by NVRTC's name");
  app.add_option("--only", options.only, "Problems");
  app.add_flag("--add", options.add, "Write the simulations into the records");
  app.add_flag("--findings", options.findings, "Also list findings of incorrect points");
  app.add_flag("--list", options.list, "List every point with its bound");
  CLI11_PARSE(app, argc, argv);
  return kernelcast::worker::Run(options);
}
