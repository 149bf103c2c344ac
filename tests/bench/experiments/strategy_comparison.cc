#include "tests/bench/experiments/strategy_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
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

// What the searches of one strategy found, relative to the best: by space and seed.
struct Results {
  std::vector<std::vector<double>> found;
  double measurements = 0;  // mean of a search

  std::vector<double> SpaceMeans() const {
    std::vector<double> means;
    for (const std::vector<double>& seeds : found) means.push_back(Mean(seeds));
    return means;
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

Json Print(const std::string& strategy, bool forecasts, const std::vector<RecordedSpace>& spaces,
           const Results& results) {
  const std::vector<double> means = results.SpaceMeans();
  const auto [low, high] = IntervalOf(results);
  const auto worst = std::min_element(means.begin(), means.end());
  const std::string& name = spaces[static_cast<size_t>(worst - means.begin())].problem->name;
  std::printf("| `%s` | %s | %.3f [%.3f, %.3f] | %.3f (%s) | %.0f%% | %.1f |\n", strategy.c_str(),
              forecasts ? "embedded" : "none", Mean(means), low, high, *worst, name.c_str(),
              100 * results.BestShare(), results.measurements);
  std::fflush(stdout);
  Json problems = Json::object();
  for (size_t i = 0; i < spaces.size(); ++i) {
    problems[spaces[i].problem->name] = results.found[i];
  }
  return {{"strategy", strategy},
          {"forecasts", forecasts ? "embedded" : "none"},
          {"mean", Mean(means)},
          {"low", low},
          {"high", high},
          {"worst_space", *worst},
          {"worst_space_name", name},
          {"best_found", results.BestShare()},
          {"measurements", results.measurements},
          {"found", problems}};
}

}  // namespace

absl::Status CompareStrategies(const HeldOutOptions& options, std::vector<std::string> strategies,
                               const std::vector<double>& device_time_shares) {
  if (strategies == std::vector<std::string>{"all"}) {
    strategies.clear();
    for (const auto& kind : orchestrator::StrategyKinds()) strategies.emplace_back(kind.name);
  }
  for (const std::string& name : strategies) {
    KC_RETURN_IF_ERROR(orchestrator::MakeStrategy(name, {}).status());
  }
  KC_ASSIGN_OR_RETURN(const std::vector<MeasuredProblem> problems, ReadMeasured(options));
  HeldOutModels models(options, problems);
  std::vector<RecordedSpace> spaces;
  std::vector<std::shared_ptr<const SharedModel>> shared;
  for (const MeasuredProblem& problem : problems) {
    KC_ASSIGN_OR_RETURN(
        RecordedSpace space,
        ReadSpace(problem, absl::StrCat(RecordsFolder(options), "/", problem.name, ".jsonl.gz")));
    spaces.push_back(std::move(space));
    KC_ASSIGN_OR_RETURN(std::shared_ptr<const SharedModel> model, models.For(problem));
    shared.push_back(std::move(model));
  }
  Json all = {{"target", options.target},
              {"hold_out", options.hold_out},
              {"seeds", options.seeds},
              {"spaces", spaces.size()}};
  Json rows = Json::array();
  for (const double share : device_time_shares) {
    std::printf(
        "\n%.0f%% of the space's device time, %zu spaces of %s, %d seeds: best found / best of the "
        "space\n\n| strategy | forecasts | mean | worst space | best found | measurements "
        "|\n|---|---|---|---|---|---|\n",
        100 * share, spaces.size(), options.target.c_str(), options.seeds);
    for (const std::string& name : strategies) {
      for (const bool forecasts : {false, true}) {
        // It makes no forecasts.
        if (forecasts && (*orchestrator::MakeStrategy(name, {}))->measures_everything()) continue;
        Results results;
        for (size_t i = 0; i < spaces.size(); ++i) {
          std::vector<double>& found = results.found.emplace_back();
          for (int seed = 1; seed <= options.seeds; ++seed) {
            orchestrator::SearchSpec spec;
            spec.strategy = name;
            spec.seed = static_cast<uint64_t>(seed);
            spec.measure_everything = !forecasts;
            spec.budget.max_device_time_ns =
                static_cast<int64_t>(share * static_cast<double>(spaces[i].device_time_ns));
            // The time ends the search first. This limit is for policies that plan with a number of
            // measurements; without one, audits would take most of the time.
            spec.budget.max_measurements = static_cast<uint64_t>(
                std::ceil(2 * share * static_cast<double>(spaces[i].facts.size())));
            const Found one = SimulateSearch(spaces[i], shared[i], std::move(spec));
            found.push_back(one.speedup / spaces[i].best_speedup);
            results.measurements += static_cast<double>(one.measurements) /
                                    static_cast<double>(options.seeds * spaces.size());
          }
        }
        Json row = Print(name, forecasts, spaces, results);
        row["device_time_share"] = share;
        rows.push_back(std::move(row));
      }
    }
  }
  all["strategies"] = rows;
  WriteFigures(options, all.dump(1));
  return absl::OkStatus();
}

}  // namespace kernelcast::forecaster
