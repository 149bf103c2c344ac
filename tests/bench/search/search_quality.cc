// Measures how close to the best of a template space a search gets with a fifth of the
// measurements.
//
//   bench_search_quality --records DIR [--problems DIR] [--only NAME ...] [--seeds 5]
//                        [--budget-share 0.2] [--pace 0.1] [--measure] [--keep DIR]
//                        [--prior FILE | --prior-records DIR ... [--prior-problems DIR]]
//                        [--worker-argument ARGUMENT ...] [--jsonl FILE]
//
// --measure first measures every point without a record in DIR, with the real worker. The searches
// then run against those records through three real processes, each seed with an untrained
// forecaster. A measurement takes --pace times its time on the device, because late labels change a
// search. Each figure is compared with the same number of random points, which is the same search
// without a surrogate.
//
// With --routed the points are streamed in random order, as by `kernelcast evaluate --mode route
// --in-flight N`, instead of searched. There is no budget, and the share that the policy measured
// is printed. With --candidates N only the first N of them are, and the best of these N is what
// there is to find.
//
// With --prior-records each problem's forecaster starts from a prior trained on the records of all
// other families of problems.

#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/statistics.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "common/domain/problem.h"
#include "common/domain/selection.h"
#include "common/rpc/status_conversion.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "tests/bench/search/cluster.h"
#include "tests/support/one_by_one.h"
#include "tests/support/services.h"

namespace kernelcast {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string problems = testing::SourcePath("examples/problems");
  std::string target = std::string(kCpuTargetName);
  std::string records;
  std::vector<std::string> worker_arguments;
  std::vector<std::string> only;
  int seeds = 5;
  double budget_share = 0.2;
  double pace = 0.1;
  bool measure = false;
  bool routed = false;
  size_t in_flight = 8;
  size_t candidates = SIZE_MAX;
  std::string keep;
  std::string prior = "none";
  std::vector<std::string> prior_records;
  std::string prior_problems = testing::SourcePath("examples/problems");
  std::string jsonl;
  std::map<std::string, double> parameters;
};

struct RoutedStream {
  size_t candidates = 0;
  size_t measured = 0;
  size_t audited = 0;
  double best_speedup = 0;
  double best_sent = 0;  // by the records
};

// Streams in points of the space in random order, with a limited number in flight.
absl::StatusOr<RoutedStream> Route(testing::Cluster& cluster, const Problem& problem,
                                   const std::map<std::string, double>& recorded,
                                   const Options& options, int seed) {
  const Space& space = *problem.targets.at(options.target).space;
  std::vector<SpacePoint> points = EnumeratePoints(space);
  std::shuffle(points.begin(), points.end(), std::mt19937_64(static_cast<uint64_t>(seed)));
  points.resize(std::min(points.size(), options.candidates));
  grpc::ClientContext context;
  auto stream = testing::OneByOne(cluster.stub().EvaluateStream(&context));
  RoutedStream routed;
  size_t sent = 0;
  const auto send = [&] {
    v1::EvaluateRequest request;
    request.set_request_id(absl::StrCat("routed/", sent + 1));
    const Candidate candidate = CandidateFromPoint(space, points[sent++], problem.problem_id);
    if (const auto found = recorded.find(candidate.candidate_id); found != recorded.end()) {
      routed.best_sent = std::max(routed.best_sent, found->second);
    }
    *request.mutable_candidate() = ToProto(candidate);
    stream->Write(request);
  };
  while (sent < std::min(points.size(), options.in_flight)) send();
  v1::EvaluateReply reply;
  while (routed.candidates < points.size() && stream->Read(&reply)) {
    ++routed.candidates;
    if (sent < points.size()) send();
    const v1::Evaluation& evaluation = reply.evaluation();
    if (evaluation.decision().reason() == v1::DECISION_REASON_AUDIT) ++routed.audited;
    if (!evaluation.has_measured()) continue;
    ++routed.measured;
    routed.best_speedup =
        std::max(routed.best_speedup, evaluation.measured().ok().speedup().value());
  }
  stream->WritesDone();
  KC_RETURN_IF_ERROR(FromGrpc(stream->Finish()));
  return routed;
}

absl::Status ExportTo(testing::Cluster& cluster, const std::string& search_id,
                      const std::string& path) {
  std::ofstream out(path + ".part");
  KC_RETURN_IF_ERROR(cluster.Export(search_id, /*include_sources=*/true,
                                    [&out](const v1::ExportRecord& record) -> absl::Status {
                                      out << ProtoToJson(record) << "\n";
                                      return absl::OkStatus();
                                    }));
  out.close();
  fs::rename(path + ".part", path);
  return absl::OkStatus();
}

v1::SearchSpec Spec(const Problem& problem, const std::string& target, uint64_t measurements,
                    uint64_t seed, bool everything) {
  v1::SearchSpec spec;
  spec.set_problem_id(problem.problem_id);
  spec.set_target(target);
  spec.set_generator(v1::GENERATOR_TEMPLATE);
  spec.mutable_budget()->set_max_measurements(measurements);
  spec.set_seed(seed);
  spec.set_measure_everything(everything);
  return spec;
}

// A space's records.
struct Pool {
  std::vector<double> speedups;  // of the correct candidates, ascending
  std::map<std::string, double> by_candidate;
  size_t points = 0;
  size_t failures = 0;
  size_t compile_errors = 0;
  double device_seconds = 0;
};

absl::StatusOr<Pool> ReadPool(const std::string& path) {
  Pool pool;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    v1::ExportRecord record;
    if (!ProtoFromJson(line, &record).ok()) {
      return absl::DataLossError(
          absl::StrCat(path, ": record ", pool.points + 1, " cannot be read"));
    }
    ++pool.points;
    const auto& evaluation = record.evaluation();
    if (evaluation.has_rejected()) {
      ++pool.compile_errors;
    } else if (evaluation.measured().has_ok()) {
      pool.speedups.push_back(evaluation.measured().ok().speedup().value());
      pool.by_candidate[evaluation.candidate_id()] = pool.speedups.back();
    } else {
      ++pool.failures;
    }
    pool.device_seconds +=
        static_cast<double>(ToNanoseconds(evaluation.measured().device_time())) * 1e-9;
  }
  std::sort(pool.speedups.begin(), pool.speedups.end());
  return pool;
}

// The best of `draws` random points that compile; failures count as no result.
LargestDrawn BestOfRandom(const Pool& pool, size_t draws) {
  std::vector<double> speedups = pool.speedups;
  speedups.resize(speedups.size() + pool.failures, 0);
  draws = std::min(draws, speedups.size());
  return LargestOfDraws(std::move(speedups), draws);
}

testing::ClusterOptions Replaying(const std::string& records, double pace,
                                  const std::string& prior) {
  testing::ClusterOptions options;
  options.worker_arguments = {"--replay", records, "--replay-pace", absl::StrCat(pace)};
  options.prior = prior;
  return options;
}

absl::Status RunRouted(const Options& options, const std::vector<Problem>& problems,
                       std::ofstream& jsonl) {
  std::printf("%-20s %6s | %9s %9s %9s\n", "problem", "points", "measured", "audited", "found");
  size_t candidates = 0, measured = 0;
  double worst = 1, sum = 0;
  int streams = 0;
  for (const Problem& problem : problems) {
    const std::string path = (fs::path(options.records) / (problem.name + ".jsonl")).string();
    if (!fs::exists(path)) continue;
    KC_ASSIGN_OR_RETURN(const Pool pool, ReadPool(path));
    const testing::TemporaryFolder training("search-prior");
    std::string prior = options.prior;
    if (!options.prior_records.empty()) {
      KC_ASSIGN_OR_RETURN(
          prior, testing::TrainPriorWithoutFamily(options.prior_problems, options.prior_records,
                                                  problem, training));
    }
    for (int seed = 1; seed <= options.seeds; ++seed) {
      testing::Cluster cluster;
      KC_RETURN_IF_ERROR(cluster.Start(Replaying(path, options.pace, prior)));
      KC_RETURN_IF_ERROR(cluster.PutProblem(problem));
      KC_ASSIGN_OR_RETURN(const auto routed,
                          Route(cluster, problem, pool.by_candidate, options, seed));
      if (routed.best_sent == 0) continue;
      const double found = routed.best_speedup / routed.best_sent;
      const double share =
          static_cast<double>(routed.measured) / static_cast<double>(routed.candidates);
      std::printf("%-20s %6zu | %8.1f%% %9zu %8.1f%%\n", problem.name.c_str(), routed.candidates,
                  100 * share, routed.audited, 100 * found);
      std::fflush(stdout);
      candidates += routed.candidates;
      measured += routed.measured;
      worst = std::min(worst, found);
      sum += found;
      ++streams;
      if (jsonl.is_open()) {
        jsonl << nlohmann::json{{"problem", problem.name},
                                {"target", options.target},
                                {"seed", seed},
                                {"in_flight", options.in_flight},
                                {"routed", routed.candidates},
                                {"measured", routed.measured},
                                {"audited", routed.audited},
                                {"prior",
                                 options.prior_records.empty() ? options.prior : "other families"},
                                {"found", found}}
              << std::endl;
      }
    }
  }
  if (streams == 0) return absl::NotFoundError("no problem has a record");
  std::printf(
      "measured %.1f%% of %zu candidates; found %.3f of the best on average, %.3f at worst\n",
      100.0 * static_cast<double>(measured) / static_cast<double>(candidates), candidates,
      sum / streams, worst);
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(options.problems)) {
    if (!fs::exists(entry.path() / "problem.yaml")) continue;
    const std::string name = entry.path().filename();
    if (options.only.empty() ||
        std::find(options.only.begin(), options.only.end(), name) != options.only.end()) {
      folders.push_back(entry.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  fs::create_directories(options.records);

  std::vector<Problem> problems;
  for (const fs::path& folder : folders) {
    KC_ASSIGN_OR_RETURN(auto files, ReadProblemFolder(folder));
    KC_ASSIGN_OR_RETURN(Problem problem, ParseProblem(std::move(files)));
    const auto target = problem.targets.find(options.target);
    if (target == problem.targets.end() || !target->second.space) continue;
    problems.push_back(std::move(problem));
  }
  auto records_of = [&](const Problem& problem) {
    return (fs::path(options.records) / (problem.name + ".jsonl")).string();
  };

  if (options.measure) {
    testing::Cluster cluster;
    KC_RETURN_IF_ERROR(cluster.Start({.worker_arguments = options.worker_arguments}));
    for (const Problem& problem : problems) {
      if (fs::exists(records_of(problem))) continue;
      const size_t points = EnumeratePoints(*problem.targets.at(options.target).space).size();
      std::cerr << "measuring " << points << " points of " << problem.name << std::endl;
      KC_RETURN_IF_ERROR(cluster.PutProblem(problem));
      KC_RETURN_IF_ERROR(
          cluster.Run(problem.name, Spec(problem, options.target, points + 1, 1, true)).status());
      KC_RETURN_IF_ERROR(ExportTo(cluster, problem.name, records_of(problem)));
    }
  }

  if (options.seeds == 0) return absl::OkStatus();
  std::ofstream jsonl;
  if (!options.jsonl.empty()) jsonl.open(options.jsonl, std::ios::app);
  if (options.routed) return RunRouted(options, problems, jsonl);
  int better = 0, equal = 0, worse = 0;
  std::printf("%-20s %6s %6s %6s %6s %8s %7s | %7s %7s %7s | %7s %7s\n", "problem", "points", "ok",
              "fail", "error", "best", "budget", "median", "worst", "spent", "random", "median");
  std::vector<double> all_medians;
  int within = 0;
  for (const Problem& problem : problems) {
    if (!fs::exists(records_of(problem))) {
      std::printf("%-20s has no record; measure it with --measure\n", problem.name.c_str());
      continue;
    }
    KC_ASSIGN_OR_RETURN(Pool pool, ReadPool(records_of(problem)));
    if (pool.speedups.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(problem.name, ": no correct candidate on record"));
    }
    const double best = pool.speedups.back();
    const auto budget = static_cast<uint64_t>(
        std::max(1.0, std::floor(options.budget_share * static_cast<double>(pool.points))));
    const testing::TemporaryFolder training("search-prior");
    std::string prior = options.prior;
    if (!options.prior_records.empty()) {
      KC_ASSIGN_OR_RETURN(
          prior, testing::TrainPriorWithoutFamily(options.prior_problems, options.prior_records,
                                                  problem, training));
    }
    std::vector<double> found;
    double spent = 0;
    for (int seed = 1; seed <= options.seeds; ++seed) {
      testing::Cluster cluster;
      KC_RETURN_IF_ERROR(cluster.Start(Replaying(records_of(problem), options.pace, prior)));
      KC_RETURN_IF_ERROR(cluster.PutProblem(problem));
      v1::SearchSpec spec =
          Spec(problem, options.target, budget, static_cast<uint64_t>(seed), false);
      spec.mutable_policy_parameters()->insert(options.parameters.begin(),
                                               options.parameters.end());
      KC_ASSIGN_OR_RETURN(v1::Search search, cluster.Run("quality", spec));
      if (!options.keep.empty()) {
        KC_RETURN_IF_ERROR(
            ExportTo(cluster, "quality",
                     absl::StrCat(options.keep, "/", problem.name, "-", seed, ".jsonl")));
      }
      found.push_back(search.has_incumbent()
                          ? search.incumbent().measurement().ok().speedup().value() / best
                          : 0);
      spent += static_cast<double>(search.counts().measured()) / options.seeds;
    }
    const double median = Median(found);
    const LargestDrawn random = BestOfRandom(pool, budget);
    (median > random.median / best ? better : median == random.median / best ? equal : worse) += 1;
    all_medians.push_back(median);
    if (median >= 0.95) ++within;
    std::printf(
        "%-20s %6zu %6zu %6zu %6zu %7.2fx %7llu | %6.1f%% %6.1f%% %7.1f | %6.1f%% %6.1f%%\n",
        problem.name.c_str(), pool.points, pool.speedups.size(), pool.failures, pool.compile_errors,
        best, static_cast<unsigned long long>(budget), 100 * median,
        100 * *std::min_element(found.begin(), found.end()), spent, 100 * random.expected / best,
        100 * random.median / best);
    std::fflush(stdout);
    if (jsonl.is_open()) {
      jsonl << nlohmann::json{{"problem", problem.name},
                              {"target", options.target},
                              {"points", pool.points},
                              {"correct", pool.speedups.size()},
                              {"best_speedup", best},
                              {"measured", budget},
                              {"budget_share", options.budget_share},
                              {"prior",
                               options.prior_records.empty() ? options.prior : "other families"},
                              {"found", found},
                              {"random_expected", random.expected / best},
                              {"random_median", random.median / best}}
            << std::endl;
    }
  }
  std::printf("within 5%% of the best in the median of %d seeds: %d of %zu problems\n",
              options.seeds, within, all_medians.size());
  std::printf("median better than that of random draws in %d, the same in %d, worse in %d\n",
              better, equal, worse);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app{"Search quality on a share of the measurements"};
  Options options;
  app.add_option("--problems", options.problems, "Folder of problems")->capture_default_str();
  app.add_option("--target", options.target, "Target of the spaces")->capture_default_str();
  app.add_option("--records", options.records, "Folder of records, one file per problem")
      ->required();
  app.add_option("--only", options.only, "Names of problems");
  app.add_option("--seeds", options.seeds, "Searches per problem; 0: only measure")
      ->capture_default_str();
  app.add_option("--budget-share", options.budget_share, "Measurements as a share of the space")
      ->capture_default_str();
  app.add_option("--pace", options.pace, "Replay time as a share of the recorded device time")
      ->capture_default_str();
  std::vector<std::pair<std::string, double>> parameters;
  app.add_option("--policy-parameter", parameters, "NAME VALUE: a parameter of the policy");
  app.add_option("--keep", options.keep,
                 "Folder for the records of the searches, PROBLEM-SEED.jsonl");
  app.add_option("--prior", options.prior, "The forecaster's --prior")->capture_default_str();
  app.add_option("--prior-records", options.prior_records,
                 "Folders of records to train priors on, without the problem's family")
      ->excludes("--prior");
  app.add_option("--prior-problems", options.prior_problems,
                 "Folder of the problems of these records")
      ->capture_default_str();
  app.add_option("--jsonl", options.jsonl, "File to append one line per problem to");
  app.add_flag("--measure", options.measure, "Measure points without a record");
  app.add_option(
      "--worker-argument", options.worker_arguments,
      "Arguments of the worker that measures them, such as --worker-argument=--python=python3");
  CLI::Option* const routed =
      app.add_flag("--routed", options.routed, "Stream the points instead of searching");
  app.add_option("--in-flight", options.in_flight, "Points that are not answered yet")
      ->check(CLI::PositiveNumber)
      ->needs(routed);
  app.add_option("--candidates", options.candidates,
                 "At most this number of points, drawn by the seed")
      ->check(CLI::PositiveNumber)
      ->needs(routed);
  CLI11_PARSE(app, argc, argv);
  options.parameters.insert(parameters.begin(), parameters.end());
  if (absl::Status status = Run(options); !status.ok()) {
    std::cerr << status.ToString() << "\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace kernelcast

int main(int argc, char** argv) {
  try {
    return kernelcast::Main(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
