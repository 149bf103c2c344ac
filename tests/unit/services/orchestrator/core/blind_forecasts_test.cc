// Forecasts without information must not cost the winner: whatever the policy and the order of the
// candidates, the best one is measured at least as often as the average candidate.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/domain/search_names.h"
#include "services/orchestrator/core/policy.h"
#include "services/orchestrator/core/route_history.h"

namespace kernelcast::orchestrator {
namespace {

constexpr int kPool = 24;
constexpr int kPools = 400;

enum class Order { kBestFirst, kBestLast, kRandom };

struct Pool {
  uint64_t max_measurements = 0;
  int in_flight = 1;
  Order order = Order::kRandom;
};

// The forecast for the n-th candidate of the pool, after this many measurements whose mean log2
// speedup is `mean`.
using Forecaster = std::function<Forecast(std::mt19937&, int n, uint64_t labels, double mean)>;

Forecast ForecastOf(double log2_speedup, double sigma = 0.3, double failure = 0.05) {
  Forecast forecast;
  forecast.bin_probabilities = BinsFromStudentT(BinScheme::Default(), log2_speedup, sigma, 1e9);
  forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  forecast.expected_log2_speedup = log2_speedup;
  forecast.stddev_log2_speedup = sigma;
  forecast.failure_probability = failure;
  return forecast;
}

struct Tally {
  int best_measured = 0;
  int64_t measured = 0;
  int64_t unpromising = 0;
  double inverse_propensity = 0;  // of the measured
  int64_t possible = 0;           // candidates with a propensity above 0
};

// Routes one pool of candidates, of which measurements return in order once more than `in_flight`
// candidates are known.
void RoutePool(const Policy& policy, const Pool& pool, const Forecaster& forecaster, uint32_t seed,
               Tally& tally) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform;
  // log2 speedups from -1 to 2.
  std::vector<double> truths(kPool);
  for (int i = 0; i < kPool; ++i) truths[i] = -1 + 3.0 * i / (kPool - 1);
  std::shuffle(truths.begin(), truths.end(), random);
  const auto best = std::max_element(truths.begin(), truths.end());
  if (pool.order == Order::kBestFirst) std::swap(*best, truths.front());
  if (pool.order == Order::kBestLast) std::swap(*best, truths.back());

  RouteHistory history(policy.risk_options());
  std::deque<std::pair<int, Decision>> running;
  double incumbent = 1;
  double sum = 0;
  uint64_t measured = 0;
  std::vector<Forecast> forecasts(kPool);
  for (int i = 0, known = 0; i < kPool; ++i) {
    for (; known < std::min(kPool, i + pool.in_flight); ++known) {
      const double mean = measured == 0 ? 0 : sum / static_cast<double>(measured);
      forecasts[known] = forecaster(random, known, measured, mean);
      history.Forecast(std::to_string(known), forecasts[known]);
    }
    PolicyInput input;
    input.forecast = &forecasts[i];
    input.incumbent_speedup = incumbent;
    input.measured = measured;
    input.measuring = running.size();
    input.max_measurements = pool.max_measurements;
    input.decided = static_cast<uint64_t>(i);
    input.expected_decisions = kPool;
    input.audit_draw = uniform(random);
    input.history = &history;
    Decision decision = policy.Decide(input);
    const uint64_t spent = measured + running.size();
    if (pool.max_measurements > 0 && spent >= pool.max_measurements) {
      decision.kind = DecisionKind::kPrune;
      decision.reason = DecisionReason::kBudgetPace;
      decision.audit_propensity = 0;
    }
    history.Decide(std::to_string(i), decision, &forecasts[i]);
    if (decision.audit_propensity > 0) ++tally.possible;
    if (decision.kind == DecisionKind::kMeasure) {
      ++tally.measured;
      tally.inverse_propensity += 1 / decision.audit_propensity;
      if (truths[i] == 2) ++tally.best_measured;
      running.emplace_back(i, decision);
    } else if (decision.reason == DecisionReason::kUnpromising) {
      ++tally.unpromising;
    }
    while (running.size() >= static_cast<size_t>(pool.in_flight)) {
      const auto [n, decided] = running.front();
      running.pop_front();
      ++measured;
      sum += truths[n];
      history.Settle(std::to_string(n), decided, std::exp2(truths[n]), policy.win_margin());
      incumbent = std::max(incumbent, std::exp2(truths[n]));
    }
  }
}

Tally RoutePools(const std::string& policy_name, const Pool& pool, const Forecaster& forecaster,
                 int pools = kPools) {
  const auto policy = MakePolicy(policy_name, {}).value();
  Tally tally;
  for (int seed = 0; seed < pools; ++seed) {
    RoutePool(*policy, pool, forecaster, static_cast<uint32_t>(seed), tally);
  }
  return tally;
}

// The best is measured no more rarely than others, within four standard errors.
void CheckBest(const Tally& tally, int pools = kPools) {
  const double n = pools;
  const double share = static_cast<double>(tally.measured) / (n * kPool);
  const double error = std::sqrt(share * (1 - share) / n);
  INFO("measured share " << share << ", best measured " << tally.best_measured / n);
  CHECK(tally.best_measured / n >= share - 4 * error);
}

const std::map<std::string, Forecaster>& BlindForecasters() {
  static const std::map<std::string, Forecaster> kForecasters = {
      {"constant", [](std::mt19937&, int, uint64_t, double) { return ForecastOf(0); }},
      {"constant failure",
       [](std::mt19937&, int, uint64_t, double) { return ForecastOf(0, 0.3, 0.98); }},
      {"equal within noise",
       [](std::mt19937& random, int, uint64_t, double) {
         std::uniform_real_distribution<double> noise(0, 0.01);
         return ForecastOf(noise(random), 0.3 + noise(random), 0.05 + noise(random));
       }},
      {"prior alone, shifted by labels",
       [](std::mt19937&, int, uint64_t labels, double mean) {
         Forecast forecast = ForecastOf(mean, 0.5);
         forecast.labels_seen = labels;
         forecast.basis = ForecastBasis::kPriorOnly;
         return forecast;
       }},
      {"equal facts, shifted by labels",
       [](std::mt19937&, int, uint64_t labels, double mean) {
         Forecast forecast = ForecastOf(mean, 0.3);
         forecast.labels_seen = labels;
         forecast.basis = ForecastBasis::kFacts;
         forecast.evidence_id = "e";
         return forecast;
       }},
      {"three in four equal",
       [](std::mt19937&, int n, uint64_t, double) {
         Forecast forecast = ForecastOf(n % 4 == 0 ? -0.1 * n : 0);
         forecast.basis = ForecastBasis::kModel;
         return forecast;
       }},
  };
  return kForecasters;
}

TEST_CASE("Blind forecasts cost the winner no more than chance, in any order", "[blind]") {
  for (const std::string_view policy : PolicyNames()) {
    for (const auto& [kind, forecaster] : BlindForecasters()) {
      for (const uint64_t budget : {0, 10, 3}) {
        for (const int in_flight : {1, 8}) {
          for (const Order order : {Order::kBestFirst, Order::kBestLast, Order::kRandom}) {
            // In this kind, some forecasts depend on the candidate's place in the order.
            if (kind == "three in four equal" && order != Order::kRandom) continue;
            INFO(policy << ", " << kind << ", budget " << budget << ", in flight " << in_flight
                        << ", order " << static_cast<int>(order));
            const int pools = kPools / 8;
            const Tally tally =
                RoutePools(std::string(policy), {budget, in_flight, order}, forecaster, pools);
            CheckBest(tally, pools);
            if (kind == "three in four equal") continue;
            CHECK(tally.unpromising == 0);
            // Without a limit everything is measured, otherwise all that the limit allows.
            CHECK(tally.measured == pools * static_cast<int64_t>(budget == 0 ? kPool : budget));
          }
        }
      }
    }
  }
}

TEST_CASE("Propensities of draws add up to the candidates that may be drawn", "[blind]") {
  for (const std::string_view policy : PolicyNames()) {
    const Tally tally = RoutePools(std::string(policy), {10, 1, Order::kBestLast},
                                   BlindForecasters().at("constant"));
    INFO(policy);
    const auto possible = static_cast<double>(tally.possible);
    CHECK(possible > 0.7 * kPools * kPool);
    CHECK(tally.inverse_propensity == Approx(possible).epsilon(0.1));
  }
}

TEST_CASE("Shuffled forecasts cost the winner no more than chance", "[blind]") {
  // Forecasts as spread out as the candidates, given to any of them.
  const Forecaster shuffled = [](std::mt19937& random, int, uint64_t, double) {
    std::uniform_real_distribution<double> anywhere(-1, 2);
    std::uniform_real_distribution<double> failure(0, 0.8);
    return ForecastOf(anywhere(random), 0.4, failure(random));
  };
  for (const std::string_view policy : PolicyNames()) {
    for (const uint64_t budget : {0, 10, 20}) {
      for (const int in_flight : {1, 8}) {
        INFO(policy << ", budget " << budget << ", in flight " << in_flight);
        CheckBest(RoutePools(std::string(policy), {budget, in_flight, Order::kRandom}, shuffled));
      }
    }
  }
}

TEST_CASE("Forecasts that tell candidates apart still prune", "[blind]") {
  // Two of four are forecast to be slow.
  const Forecaster apart = [](std::mt19937&, int n, uint64_t, double) {
    Forecast forecast = ForecastOf(n % 2 == 0 ? -3 + 0.05 * n : 0.05 * n, 0.2);
    forecast.basis = ForecastBasis::kSimulation;
    forecast.evidence_id = std::to_string(n);
    forecast.labels_seen = 10;
    return forecast;
  };
  for (const char* policy : {"threshold", "top_k"}) {
    INFO(policy);
    const Tally tally = RoutePools(policy, {0, 1, Order::kRandom}, apart, 100);
    CHECK(tally.unpromising > 100 * kPool / 4);
  }
}

TEST_CASE("Chance breaks ties at the edge of a rank", "[blind]") {
  CHECK(Rank{0.1, 0}.ChanceAmong(0.25) == 1);
  CHECK(Rank{0.25, 0}.ChanceAmong(0.25) == 0);
  CHECK(Rank{0.2, 0.1}.ChanceAmong(0.25) == Approx(0.5));
  CHECK(Rank{0.2, 0.04}.ChanceAmong(0.25) == 1);
  CHECK(Rank{0.3, 0.5}.ChanceAmong(0.25) == 0);
  CHECK(Rank{}.ChanceAmong(0.25) == 1);
}

}  // namespace
}  // namespace kernelcast::orchestrator
