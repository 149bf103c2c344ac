#include "tests/bench/experiments/strategy_comparison.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/orchestrator/core/search_strategy.h"
#include "tests/bench/experiments/simulated_search.h"

namespace kernelcast::forecaster {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kResamples = 2000;
// A kernel this near the best counts as the best: measurements differ by about as much.
constexpr double kAsGoodAsBest = 0.998;
constexpr double kNearBest = 0.99;

// The results of one strategy's searches, relative to the best: by space and seed.
struct Results {
  std::vector<std::vector<double>> found;
  // Means of a search.
  double measurements = 0;
  double stopped_early = 0;
  double milliseconds = 0;  // device time of one measurement

  std::vector<double> SpaceMeans() const {
    std::vector<double> means;
    for (const std::vector<double>& seeds : found) means.push_back(Mean(seeds));
    return means;
  }
  // Spaces whose median search finds at least 99% of the best.
  int NearBest() const {
    return static_cast<int>(std::ranges::count_if(found, [](std::vector<double> seeds) {
      std::ranges::sort(seeds);
      const size_t middle = seeds.size() / 2;
      const double median =
          seeds.size() % 2 == 1 ? seeds[middle] : (seeds[middle - 1] + seeds[middle]) / 2;
      return median >= kNearBest;
    }));
  }
  double BestShare() const {
    double best = 0, searches = 0;
    for (const std::vector<double>& seeds : found) {
      for (const double one : seeds) best += one >= kAsGoodAsBest ? 1 : 0;
      searches += static_cast<double>(seeds.size());
    }
    return best / searches;
  }
};

// 95% interval of the mean over spaces, by resampling spaces and, of each, seeds.
std::pair<double, double> IntervalOf(const Results& results) {
  std::mt19937_64 random(1);
  const auto any = [&](size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random);
  };
  std::vector<double> means;
  for (int resample = 0; resample < kResamples; ++resample) {
    double sum = 0;
    for (size_t i = 0; i < results.found.size(); ++i) {
      const std::vector<double>& seeds = results.found[any(results.found.size())];
      double of_space = 0;
      for (size_t j = 0; j < seeds.size(); ++j) of_space += seeds[any(seeds.size())];
      sum += of_space / static_cast<double>(seeds.size());
    }
    means.push_back(sum / static_cast<double>(results.found.size()));
  }
  std::sort(means.begin(), means.end());
  return {means[kResamples / 40], means[kResamples - 1 - kResamples / 40]};
}

// One row of the table: a combination of strategy, forecasts, source and timing.
struct Combination {
  std::string strategy;
  std::string forecasts;
  std::string source;
  std::string timing;
};

Json Print(const Combination& row, const std::vector<RecordedSpace>& spaces,
           const Results& results) {
  const std::vector<double> means = results.SpaceMeans();
  const auto [low, high] = IntervalOf(results);
  const auto worst = std::min_element(means.begin(), means.end());
  const std::string& name = spaces[static_cast<size_t>(worst - means.begin())].problem->name;
  std::printf(
      "| `%s` | %s | %s | %s | %.3f [%.3f, %.3f] | %.3f (%s) | %d of %zu | %.0f%% | %.1f (%.1f) | "
      "%.1f |\n",
      row.strategy.c_str(), row.forecasts.c_str(), row.source.c_str(), row.timing.c_str(),
      Mean(means), low, high, *worst, name.c_str(), results.NearBest(), spaces.size(),
      100 * results.BestShare(), results.measurements, results.stopped_early, results.milliseconds);
  std::fflush(stdout);
  Json problems = Json::object();
  for (size_t i = 0; i < spaces.size(); ++i) {
    problems[spaces[i].problem->name] = results.found[i];
  }
  return {{"strategy", row.strategy},
          {"forecasts", row.forecasts},
          {"source", row.source},
          {"timing", row.timing},
          {"mean", Mean(means)},
          {"low", low},
          {"high", high},
          {"worst_space", *worst},
          {"worst_space_name", name},
          {"near_best", results.NearBest()},
          {"best_found", results.BestShare()},
          {"measurements", results.measurements},
          {"stopped_early", results.stopped_early},
          {"device_ms_per_measurement", results.milliseconds},
          {"found", problems}};
}

std::vector<Combination> CombinationsOf(const ComparisonOptions& comparison) {
  std::vector<Combination> rows;
  for (const std::string& strategy : comparison.strategies) {
    const bool forecasts_any = !(*orchestrator::MakeStrategy(strategy, {}))->measures_everything();
    for (const std::string& source : comparison.sources) {
      for (const std::string& forecasts : comparison.forecasts) {
        if (forecasts != "none" && !forecasts_any) continue;
        for (const std::string& timing : comparison.timing) {
          rows.push_back({strategy, forecasts, source, timing});
        }
      }
    }
  }
  return rows;
}

orchestrator::SearchSpec SpecOf(const Combination& row, const RecordedSpace& space, double share,
                                int seed) {
  orchestrator::SearchSpec spec;
  spec.strategy = row.strategy;
  spec.seed = static_cast<uint64_t>(seed);
  spec.measure_everything = row.forecasts == "none";
  spec.time_in_full = row.timing == "full";
  spec.budget.max_device_time_ns =
      static_cast<int64_t>(share * static_cast<double>(space.device_time_ns));
  // The time ends the search first. This limit is for policies that plan with a number of
  // measurements; without one, audits would take most of the time.
  spec.budget.max_measurements =
      static_cast<uint64_t>(std::ceil(2 * share * static_cast<double>(space.facts.size())));
  if (row.source == "author") {
    spec.generator = orchestrator::GeneratorKind::kLlm;
    spec.generator_limits.max_requests = space.facts.size();
  }
  return spec;
}

// Calls run(0) ... run(count - 1) on `jobs` threads. Returns the first error.
absl::Status RunAll(size_t count, int jobs, const std::function<absl::Status(size_t)>& run) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  absl::Status first;
  std::vector<std::thread> threads;
  for (int i = 0; i < jobs; ++i) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < count; at = next++) {
        absl::Status status = run(at);
        if (status.ok()) continue;
        const std::lock_guard lock(mutex);
        first.Update(std::move(status));
        next = count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return first;
}

}  // namespace

absl::Status CompareStrategies(const HeldOutOptions& options, ComparisonOptions comparison) {
  if (comparison.strategies == std::vector<std::string>{"all"}) {
    comparison.strategies.clear();
    for (const auto& kind : orchestrator::StrategyKinds()) {
      comparison.strategies.emplace_back(kind.name);
    }
  }
  for (const std::string& name : comparison.strategies) {
    KC_RETURN_IF_ERROR(orchestrator::MakeStrategy(name, {}).status());
  }
  KC_ASSIGN_OR_RETURN(const std::vector<MeasuredProblem> problems, ReadMeasured(options));
  HeldOutModels models(options, problems);
  std::vector<RecordedSpace> spaces;
  std::vector<std::shared_ptr<const SharedModel>> shared;
  for (const MeasuredProblem& problem : problems) {
    const std::vector<std::string>& only = comparison.only;
    if (!only.empty() && std::ranges::find(only, problem.name) == only.end()) continue;
    KC_ASSIGN_OR_RETURN(
        RecordedSpace space,
        ReadSpace(problem, absl::StrCat(RecordsFolder(options), "/", problem.name, ".jsonl.gz")));
    spaces.push_back(std::move(space));
    KC_ASSIGN_OR_RETURN(std::shared_ptr<const SharedModel> model, models.For(problem));
    shared.push_back(std::move(model));
  }
  if (spaces.empty()) return absl::NotFoundError("--only: none of these spaces is recorded");
  const std::vector<Combination> combinations = CombinationsOf(comparison);
  const auto seeds = static_cast<size_t>(options.seeds);
  Json all = {{"target", options.target},
              {"hold_out", options.hold_out},
              {"seeds", options.seeds},
              {"spaces", spaces.size()}};
  Json rows = Json::array();
  for (const double share : comparison.shares) {
    std::printf(
        "\n%.0f%% of the space's device time, %zu spaces of %s, %d seeds: best found / best of the "
        "space\n\n| strategy | forecasts | source | timing | mean | worst space | median >= 99%% | "
        "best found | measurements (ended early) | ms each |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n",
        100 * share, spaces.size(), options.target.c_str(), options.seeds);
    for (const Combination& row : combinations) {
      std::vector<Found> searches(spaces.size() * seeds);
      KC_RETURN_IF_ERROR(RunAll(searches.size(), comparison.jobs, [&](size_t at) -> absl::Status {
        const RecordedSpace& space = spaces[at / seeds];
        const auto seed = static_cast<int>(at % seeds) + 1;
        orchestrator::SearchSpec spec = SpecOf(row, space, share, seed);
        std::unique_ptr<SearchForecaster> forecaster;
        if (row.forecasts == "embedded") {
          forecaster =
              std::make_unique<EmbeddedSearchForecaster>(space, shared[at / seeds], spec.seed);
        } else if (row.forecasts == "llm") {
          KC_ASSIGN_OR_RETURN(
              forecaster, StartModelForecaster(
                              comparison.llm,
                              std::make_shared<const Problem>(space.problem->context->problem)));
        }
        searches[at] = SimulateSearch(space, forecaster.get(), std::move(spec));
        return absl::OkStatus();
      }));
      Results results;
      double device_time_ns = 0;
      for (size_t at = 0; at < searches.size(); ++at) {
        if (at % seeds == 0) results.found.emplace_back();
        results.found.back().push_back(searches[at].speedup / spaces[at / seeds].best_speedup);
        const auto count = static_cast<double>(searches.size());
        results.measurements += static_cast<double>(searches[at].measurements) / count;
        results.stopped_early += static_cast<double>(searches[at].stopped_early) / count;
        device_time_ns += static_cast<double>(searches[at].device_time_ns) / count;
      }
      results.milliseconds = device_time_ns * 1e-6 / results.measurements;
      Json printed = Print(row, spaces, results);
      printed["device_time_share"] = share;
      rows.push_back(std::move(printed));
    }
  }
  all["strategies"] = rows;
  WriteFigures(options, all.dump(1));
  return absl::OkStatus();
}

}  // namespace kernelcast::forecaster
