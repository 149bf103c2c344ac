// Measures what forecasts save in searches whose kernels a model writes.
//
//   bench_forecast_loop [--target cuda] [--only NAME ...] [--seeds 10] [--seconds 340]
//                       [--replay] [--worker-argument ARGUMENT ...] [--commit HASH] [--output FILE]
//                       [--export FOLDER]
//
// A scripted author writes the recorded kernels of each problem, right and wrong, fast and slow, in
// an order drawn by the seed. Each seed is searched twice by the three real services: measuring
// everything, and with forecasts and pruning. The forecaster starts from a prior that was trained
// without the problem's family, and with a state of its own. Confirmations are left out.
//
// Prints for both the device seconds without preparing the problem, their ratio, the result, and
// the share of searches that pruned the winner. A kernel's speedup is the median over the searches
// that measured everything, and the winner has the largest.
//
// --replay answers from the records instead of a device, and so needs no GPU. All seeds are run
// until --seconds have passed; then no further one starts. --export writes the settled evaluations
// of each search with pruning to a file, to look at single decisions.

#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "common/domain/problem.h"
#include "common/domain/share_interval.h"
#include "common/rpc/status_conversion.h"
#include "tests/bench/search/cluster.h"
#include "tests/bench/search/kernel_pool.h"
#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/fakes/llm_endpoint/scripted_author.h"
#include "tests/support/services.h"

namespace kernelcast::testing {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr double kDeviceTimeGoal = 3;
constexpr auto kDeviceLimit = std::chrono::seconds(60);

struct Options {
  std::string problems = SourcePath("examples/problems");
  std::string records;
  std::string target = std::string(kCudaTargetName);
  std::vector<std::string> only = {"attention_one_query", "cross_entropy", "matmul_bf16"};
  int seeds = 10;
  double seconds = 340;
  bool replay = false;
  std::vector<std::string> worker_arguments;
  std::string commit;
  std::string output;
  std::string exported;  // folder
};

// The result of one search.
struct Searched {
  double device_seconds = 0;  // without preparation
  uint64_t measured = 0;
  uint64_t pruned = 0;
  std::map<std::string, double> speedups;   // of measured kernels, by candidate id; 0: failed
  std::map<std::string, uint64_t> reasons;  // measured kernels by reason
  std::string device;
  std::string driver;

  // The correct kernel with the largest speedup. Empty: none.
  std::string Best() const {
    const auto best =
        std::ranges::max_element(speedups, {}, [](const auto& one) { return one.second; });
    return best == speedups.end() || best->second == 0 ? "" : best->first;
  }
};

struct Pair {
  int seed = 0;
  Searched everything;
  Searched pruning;

  double Ratio() const { return everything.device_seconds / pruning.device_seconds; }
};

// A problem with its pool, prior and results.
struct Loop {
  KernelPool pool;
  std::string prior;
  std::vector<Pair> pairs;

  // Median speedups of the searches that measured everything.
  std::map<std::string, double> Truth() const {
    std::map<std::string, std::vector<double>> values;
    for (const Pair& pair : pairs) {
      for (const auto& [id, speedup] : pair.everything.speedups) values[id].push_back(speedup);
    }
    std::map<std::string, double> truth;
    for (auto& [id, of] : values) {
      const auto middle = of.begin() + static_cast<ptrdiff_t>(of.size() / 2);
      std::nth_element(of.begin(), middle, of.end());
      truth[id] = *middle;
    }
    return truth;
  }
};

// Waits until the orchestrator has a device of the target.
absl::Status AwaitDevice(Cluster& cluster, const std::string& target) {
  const auto limit = Clock::now() + kDeviceLimit;
  while (Clock::now() < limit) {
    grpc::ClientContext context;
    v1::OrchestratorDescription description;
    KC_RETURN_IF_ERROR(FromGrpc(
        cluster.stub().Describe(&context, v1::OrchestratorDescribeRequest(), &description)));
    for (const v1::MeasurableDevice& device : description.devices()) {
      if (device.target() == target && device.measure_slots() > 0) return absl::OkStatus();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return absl::UnavailableError(absl::StrCat("the worker has no device of the target ", target));
}

absl::StatusOr<Searched> Search(const Options& options, const Loop& loop, int seed, bool everything,
                                const std::string& worker_address) {
  const std::vector<PoolKernel>& kernels = loop.pool.kernels;
  std::vector<size_t> order(kernels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(static_cast<uint64_t>(seed)));
  ScriptedAuthor author([&](int number) {
    const auto turn = static_cast<size_t>(number - 1) % order.size();
    return kernels[order[turn]].answer;
  });
  FakeEndpointOptions endpoint_options;
  endpoint_options.answers = author.Source();
  KC_ASSIGN_OR_RETURN(const auto endpoint, FakeLlmEndpoint::Start(std::move(endpoint_options)));

  ClusterOptions cluster_options;
  cluster_options.worker_address = worker_address;
  cluster_options.prior = loop.prior;
  cluster_options.orchestrator_arguments = {"--llm", endpoint->url()};
  Cluster cluster;
  KC_RETURN_IF_ERROR(cluster.Start(cluster_options));
  KC_RETURN_IF_ERROR(AwaitDevice(cluster, options.target));
  KC_RETURN_IF_ERROR(cluster.PutProblem(loop.pool.problem));
  v1::SearchSpec spec;
  spec.set_problem_id(loop.pool.problem.problem_id);
  spec.set_target(options.target);
  spec.set_generator(v1::GENERATOR_LLM);
  spec.mutable_generator_limits()->set_max_requests(kernels.size());
  spec.set_seed(static_cast<uint64_t>(seed));
  spec.set_measure_everything(everything);
  KC_ASSIGN_OR_RETURN(const v1::Search search, cluster.Run("loop", spec));
  if (search.status() == v1::SEARCH_STATUS_FAILED) {
    return absl::InternalError(absl::StrCat("the search failed: ", search.end_reason()));
  }
  if (search.counts().generation().written() != kernels.size()) {
    return absl::InternalError(
        absl::StrCat(loop.pool.problem.name, ": ", search.counts().generation().written(), " of ",
                     kernels.size(), " kernels were written: ", search.end_reason()));
  }
  Searched searched;
  searched.device_seconds =
      static_cast<double>(ToNanoseconds(search.counts().device_time_spent()) -
                          ToNanoseconds(search.counts().device_time_preparing())) *
      1e-9;
  searched.pruned = search.counts().pruned();
  std::ofstream exported;
  if (!everything && !options.exported.empty()) {
    exported.open(absl::StrCat(options.exported, "/", loop.pool.problem.name, "-", seed, ".jsonl"));
    if (!exported) {
      return absl::UnavailableError(absl::StrCat(options.exported, ": cannot be written"));
    }
  }
  KC_RETURN_IF_ERROR(cluster.Export(
      "loop", /*include_sources=*/false, [&](const v1::ExportRecord& record) -> absl::Status {
        if (exported.is_open()) {
          exported << ProtoToJson(record) << "\n";
        }
        if (!record.evaluation().has_measured()) return absl::OkStatus();
        const v1::Measurement& measurement = record.evaluation().measured();
        ++searched.reasons[v1::DecisionReason_Name(record.evaluation().decision().reason())];
        searched.speedups[record.evaluation().candidate_id()] =
            measurement.has_ok() ? measurement.ok().speedup().value() : 0;
        searched.device = measurement.device().model();
        searched.driver = measurement.device().driver_version();
        return absl::OkStatus();
      }));
  if (exported.is_open() && !exported.flush()) {
    return absl::UnavailableError(absl::StrCat(options.exported, ": cannot be written"));
  }
  searched.measured = searched.speedups.size();
  return searched;
}

// Figures over the pairs of one problem or of all.
struct Totals {
  double everything_seconds = 0;
  double pruning_seconds = 0;
  double found_everything = 0;  // sums over pairs, relative to the winner
  double found_pruning = 0;
  double within = 0;  // results of at least 99% of the winner
  double winners_pruned = 0;
  double pairs = 0;
  std::vector<double> ratios;

  void Add(const Totals& other) {
    everything_seconds += other.everything_seconds;
    pruning_seconds += other.pruning_seconds;
    found_everything += other.found_everything;
    found_pruning += other.found_pruning;
    within += other.within;
    winners_pruned += other.winners_pruned;
    pairs += other.pairs;
    ratios.insert(ratios.end(), other.ratios.begin(), other.ratios.end());
  }
  Json ToJson() const {
    const auto [low, high] = WilsonInterval(winners_pruned / pairs, pairs);
    return {{"pairs", pairs},
            {"device_seconds_everything", everything_seconds},
            {"device_seconds_pruning", pruning_seconds},
            {"ratio", everything_seconds / pruning_seconds},
            {"least_ratio", std::ranges::min(ratios)},
            {"found_everything", found_everything / pairs},
            {"found_pruning", found_pruning / pairs},
            {"within_1_percent", within / pairs},
            {"winner_pruned", winners_pruned / pairs},
            {"winner_pruned_low", low},
            {"winner_pruned_high", high}};
  }
};

void PrintRow(const std::string& name, const std::string& kernels, const Totals& totals) {
  const auto [low, high] = WilsonInterval(totals.winners_pruned / totals.pairs, totals.pairs);
  std::printf(
      "| %s | %s | %.0f | %.1f | %.1f | %.2f (least %.2f) | %.4f | %.4f | %.0f%% | %.0f of %.0f "
      "[%.2f, %.2f] |\n",
      name.c_str(), kernels.c_str(), totals.pairs, totals.everything_seconds,
      totals.pruning_seconds, totals.everything_seconds / totals.pruning_seconds,
      std::ranges::min(totals.ratios), totals.found_everything / totals.pairs,
      totals.found_pruning / totals.pairs, 100 * totals.within / totals.pairs,
      totals.winners_pruned, totals.pairs, low, high);
}

// Prints the results and writes them.
absl::Status Report(const Options& options, const std::vector<Loop>& loops) {
  std::printf(
      "\n| problem | kernels | seeds | device s, everything | device s, pruning | ratio | found, "
      "everything | found, pruning | within 1%% | winner pruned |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n");
  Json problems = Json::object();
  Totals all;
  std::string device, driver;
  for (const Loop& loop : loops) {
    if (loop.pairs.empty()) continue;
    const std::map<std::string, double> truth = loop.Truth();
    const auto winner =
        std::ranges::max_element(truth, {}, [](const auto& one) { return one.second; });
    const auto relative = [&](const std::string& id) {
      const auto found = truth.find(id);
      return found == truth.end() ? 0 : found->second / winner->second;
    };
    Totals totals;
    Json pairs = Json::array();
    for (const Pair& pair : loop.pairs) {
      const double found = relative(pair.pruning.Best());
      const bool winner_pruned = !pair.pruning.speedups.contains(winner->first);
      totals.everything_seconds += pair.everything.device_seconds;
      totals.pruning_seconds += pair.pruning.device_seconds;
      totals.found_everything += relative(pair.everything.Best());
      totals.found_pruning += found;
      totals.within += found >= 0.99 ? 1 : 0;
      totals.winners_pruned += winner_pruned ? 1 : 0;
      totals.pairs += 1;
      totals.ratios.push_back(pair.Ratio());
      device = pair.everything.device;
      driver = pair.everything.driver;
      pairs.push_back({{"seed", pair.seed},
                       {"device_seconds_everything", pair.everything.device_seconds},
                       {"device_seconds_pruning", pair.pruning.device_seconds},
                       {"ratio", pair.Ratio()},
                       {"measured_everything", pair.everything.measured},
                       {"measured_pruning", pair.pruning.measured},
                       {"pruned", pair.pruning.pruned},
                       {"measured_because", pair.pruning.reasons},
                       {"found_everything", relative(pair.everything.Best())},
                       {"found_pruning", found},
                       {"winner_pruned", winner_pruned}});
    }
    const std::string& name = loop.pool.problem.name;
    PrintRow(name, absl::StrCat(loop.pool.kernels.size()), totals);
    problems[name] = {{"kernels", loop.pool.kernels.size()},
                      {"winner", winner->first},
                      {"winner_speedup", winner->second},
                      {"all", totals.ToJson()},
                      {"searches", std::move(pairs)}};
    all.Add(totals);
  }
  if (all.pairs == 0) return absl::DeadlineExceededError("no seed ended in time");
  PrintRow("**all**", "", all);
  const double ratio = all.everything_seconds / all.pruning_seconds;
  std::printf("goal: device seconds fall by %.0fx: %s\n", kDeviceTimeGoal,
              ratio >= kDeviceTimeGoal ? "reached" : "missed");
  if (options.output.empty()) return absl::OkStatus();
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  const Json record = {{"benchmark", "bench_forecast_loop"},
                       {"target", options.target},
                       {"device", device},
                       {"driver", driver},
                       {"replayed", options.replay},
                       {"date", date},
                       {"commit", options.commit},
                       {"all", all.ToJson()},
                       {"problems", std::move(problems)}};
  std::ofstream out(options.output);
  out << record.dump(1) << "\n";
  out.close();
  return out ? absl::OkStatus()
             : absl::UnavailableError(absl::StrCat(options.output, ": cannot be written"));
}

absl::Status Run(Options options) {
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  if (options.records.empty()) {
    options.records =
        SourcePath(options.target == kCudaTargetName ? "data/measured/nvidia-h200/spaces"
                                                     : "data/measured/amd-epyc/spaces");
  }
  const TemporaryFolder folder("forecast-loop");
  std::vector<std::unique_ptr<TemporaryFolder>> training;
  std::vector<std::string> worker_arguments = {"--cache-dir", folder.File("cache")};
  worker_arguments.insert(worker_arguments.end(), options.worker_arguments.begin(),
                          options.worker_arguments.end());
  std::vector<Loop> loops;
  for (const std::string& name : options.only) {
    Loop loop;
    KC_ASSIGN_OR_RETURN(loop.pool,
                        ReadKernelPool(options.problems, options.records, name, options.target));
    training.push_back(std::make_unique<TemporaryFolder>("prior"));
    KC_ASSIGN_OR_RETURN(loop.prior, TrainPriorWithoutFamily(options.problems, {options.records},
                                                            loop.pool.problem, *training.back()));
    if (options.replay) {
      const std::string path = folder.File(absl::StrCat(name, ".jsonl"));
      KC_RETURN_IF_ERROR(loop.pool.WriteRecords(path));
      worker_arguments.insert(worker_arguments.end(), {"--replay", path});
    }
    std::fprintf(stderr, "%s: %zu kernels, %zu left out\n", name.c_str(), loop.pool.kernels.size(),
                 loop.pool.left_out);
    loops.push_back(std::move(loop));
  }
  Service worker("kernelcast-worker", worker_arguments, folder);
  KC_RETURN_IF_ERROR(worker.Start());
  // All problems get a seed before any gets the next, so that an early end leaves a fair record.
  for (int seed = 1; seed <= options.seeds && elapsed() < options.seconds; ++seed) {
    for (Loop& loop : loops) {
      if (elapsed() >= options.seconds) break;
      Pair pair;
      pair.seed = seed;
      // The first of two searches compiles. Its device time is the same.
      KC_ASSIGN_OR_RETURN(pair.everything, Search(options, loop, seed, true, worker.address()));
      KC_ASSIGN_OR_RETURN(pair.pruning, Search(options, loop, seed, false, worker.address()));
      std::fprintf(
          stderr, "%6.1f s  %s, seed %d: %.2f s of device time, %llu measured; %.2f s, %llu\n",
          elapsed(), loop.pool.problem.name.c_str(), seed, pair.everything.device_seconds,
          static_cast<unsigned long long>(pair.everything.measured), pair.pruning.device_seconds,
          static_cast<unsigned long long>(pair.pruning.measured));
      loop.pairs.push_back(std::move(pair));
    }
  }
  return Report(options, loops);
}

int Main(int argc, char** argv) {
  CLI::App app{"Device time that forecasts save in searches with kernels of a model"};
  Options options;
  app.add_option("--problems", options.problems, "Folder of problems")->capture_default_str();
  app.add_option("--records", options.records, "Folder of measured PROBLEM.jsonl.gz");
  app.add_option("--target", options.target, "cuda or cpu")
      ->capture_default_str()
      ->check(CLI::IsMember({"cuda", "cpu"}));
  app.add_option("--only", options.only, "Names of problems")->capture_default_str();
  app.add_option("--seeds", options.seeds, "Pairs of searches per problem")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--seconds", options.seconds, "Start no further search after this time")
      ->capture_default_str();
  app.add_flag("--replay", options.replay, "Answer from the records instead of a device");
  app.add_option("--worker-argument", options.worker_arguments, "An argument for the worker");
  app.add_option("--commit", options.commit, "Commit to note in the record");
  app.add_option("--output", options.output, "File for the record, as JSON");
  app.add_option("--export", options.exported,
                 "Folder for the settled evaluations of searches with pruning")
      ->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  if (const absl::Status status = Run(std::move(options)); !status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.ToString()).c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace kernelcast::testing

int main(int argc, char** argv) {
  try {
    return kernelcast::testing::Main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
