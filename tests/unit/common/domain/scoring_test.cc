#include "common/domain/scoring.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>

namespace kernelcast {
namespace {

using Catch::Matchers::StartsWith;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const std::vector<double> kEight = {0.05, 0.05, 0.1, 0.2, 0.3, 0.15, 0.1, 0.05};

ScoredForecast Item(std::vector<double> p, int true_bin, double expected, double measured,
                    double weight = 1) {
  return {.p = std::move(p),
          .true_bin = true_bin,
          .expected_log2_speedup = expected,
          .measured_log2_speedup = measured,
          .unparsable = false,
          .weight = weight};
}

std::vector<ScoredForecast> Sample() {
  ScoredForecast unparsable = Item({}, 3, kNan, 0.2);
  unparsable.unparsable = true;
  return {Item({0.7, 0.2, 0.1, 0}, 1, -1.0, -1.2),
          Item({0.1, 0.3, 0.4, 0.2}, 2, 0.1, -0.4, 2),
          Item({0.25, 0.25, 0.25, 0.25}, 4, 0.0, 1.5),
          Item({0, 0, 0.1, 0.9}, 4, 1.4, 1.1, 4),
          unparsable,
          Item({0, 1, 0, 0}, 1, -0.5, -2, 0.5)};
}

TEST_CASE("Scoring rules give their worked values", "[scoring]") {
  CHECK(HalfBrier(kEight, 5) == Approx(0.29));
  CHECK(HalfBrier(kEight, 1) == Approx(0.54));
  CHECK(RankedProbability(kEight, 5) == Approx(0.3275 / 7));
  CHECK(RankedProbability(kEight, 1) == Approx(2.8275 / 7));
  CHECK(NegativeLogLikelihood(kEight, 5) == Approx(1.2039728043259361));
  CHECK(NegativeLogLikelihood(kEight, 1) == Approx(2.995732273553991));
}

TEST_CASE("A certain forecast scores perfectly or at the worst value", "[scoring]") {
  const std::vector<double> sure = {1, 0, 0, 0};
  CHECK(HalfBrier(sure, 1) == 0);
  CHECK(HalfBrier(sure, 4) == 1);
  CHECK(RankedProbability(sure, 1) == 0);
  CHECK(RankedProbability(sure, 2) == Approx(1.0 / 3));
  CHECK(RankedProbability(sure, 4) == 1);
  CHECK(NegativeLogLikelihood(sure, 1) == 0);
  CHECK(NegativeLogLikelihood(sure, 2) == Approx(12 * std::log(10)));
}

TEST_CASE("The reward is the hit plus the scoring rule's term", "[scoring]") {
  CHECK(Reward(RewardKind::kHit, kEight, 5) == 1);
  CHECK(Reward(RewardKind::kHit, kEight, 4) == 0);
  CHECK(Reward(RewardKind::kHitBrier, kEight, 5) == Approx(1.71));
  CHECK(Reward(RewardKind::kHitBrier, kEight, 1) == Approx(0.46));
  CHECK(Reward(RewardKind::kHitCrps, kEight, 5) == Approx(2 - 0.3275 / 7));
  CHECK(Reward(RewardKind::kHitCrps, kEight, 1) == Approx(1 - 2.8275 / 7));
  // The lowest of tied bins is the predicted one.
  CHECK(Reward(RewardKind::kHit, std::vector<double>{0.5, 0.5}, 1) == 1);
  CHECK(Reward(RewardKind::kHit, std::vector<double>{0.5, 0.5}, 2) == 0);
}

TEST_CASE("Half-Brier and ranked probability scores lie between 0 and 1", "[scoring][property]") {
  std::mt19937_64 random(3);
  std::exponential_distribution<double> part(1);
  for (int round = 0; round < 5000; ++round) {
    std::vector<double> p(2 + random() % 9);
    double sum = 0;
    for (double& value : p) sum += value = random() % 3 == 0 ? 0 : part(random);
    if (sum == 0) continue;
    for (double& value : p) value /= sum;
    const int true_bin = static_cast<int>(random() % p.size()) + 1;
    for (const double score : {HalfBrier(p, true_bin), RankedProbability(p, true_bin)}) {
      REQUIRE(score >= 0);
      REQUIRE(score <= 1 + 1e-12);
    }
  }
}

TEST_CASE("Scoring rules are proper and the true distribution expects the best score",
          "[scoring][property]") {
  std::mt19937_64 random(17);
  std::exponential_distribution<double> part(1);
  const auto simplex = [&] {
    std::vector<double> p(5);
    double sum = 0;
    for (double& value : p) sum += value = part(random);
    for (double& value : p) value /= sum;
    return p;
  };
  using Rule = double (*)(std::span<const double>, int);
  for (const Rule rule : {Rule{HalfBrier}, Rule{RankedProbability}, Rule{NegativeLogLikelihood}}) {
    for (int round = 0; round < 300; ++round) {
      const std::vector<double> truth = simplex();
      const std::vector<double> other = simplex();
      double expected_truth = 0;
      double expected_other = 0;
      for (int bin = 1; bin <= 5; ++bin) {
        expected_truth += truth[bin - 1] * rule(truth, bin);
        expected_other += truth[bin - 1] * rule(other, bin);
      }
      REQUIRE(expected_truth <= expected_other + 1e-12);
    }
  }
}

TEST_CASE("A set of forecasts has its worked metrics", "[scoring]") {
  const absl::StatusOr<ForecastMetrics> metrics = ScoreForecasts(Sample());
  REQUIRE(metrics.ok());
  CHECK(metrics->items == 6);
  CHECK(metrics->unparsable == 1);
  CHECK(metrics->accuracy == Approx(5.25 / 9.5));
  CHECK(metrics->off_by_one_accuracy == Approx(8.25 / 9.5));
  CHECK(metrics->expected_calibration_error == Approx(0.23684210526315788));
  CHECK(metrics->half_brier == Approx(0.2168421052631579));
  CHECK(metrics->crps == Approx(0.09508771929824561));
  CHECK(metrics->negative_log_likelihood == Approx(2.0814907258343123));
  CHECK(metrics->spearman == Approx(0.6));
  CHECK(metrics->pairwise_accuracy == Approx(0.7));
  REQUIRE(metrics->reliability.size() == 10);
  const ReliabilityBucket& third = metrics->reliability[2];
  CHECK(third.low == 0.2);
  CHECK(third.high == 0.3);
  CHECK(third.weight == 2);
  CHECK(third.mean_confidence == Approx(0.25));
  CHECK(third.accuracy == Approx(0.125));
  CHECK(metrics->reliability[3].weight == 2);
  CHECK(metrics->reliability[6].weight == 1);
  CHECK(metrics->reliability[8].weight == 4);
  CHECK(metrics->reliability[9].weight == 0.5);
}

TEST_CASE("A confidence on a boundary falls in the lower bucket", "[scoring]") {
  for (int k = 5; k <= 10; ++k) {
    const double confidence = k / 10.0;
    CAPTURE(k);
    const std::vector<ScoredForecast> items = {Item({confidence, 1 - confidence}, 1, 0, 0)};
    CHECK(ScoreForecasts(items)->reliability[k - 1].weight == 1);
  }
  const std::vector<ScoredForecast> above = {Item({0.7000001, 0.2999999}, 1, 0, 0)};
  CHECK(ScoreForecasts(above)->reliability[7].weight == 1);
}

TEST_CASE("Ranking metrics are NaN where there is nothing to rank", "[scoring]") {
  const std::vector<ScoredForecast> items = {Item({0.5, 0.5}, 1, 1, 1),
                                             Item({0.5, 0.5}, 1, kNan, 2)};
  const absl::StatusOr<ForecastMetrics> metrics = ScoreForecasts(items);
  REQUIRE(metrics.ok());
  CHECK(std::isnan(metrics->spearman));
  CHECK(std::isnan(metrics->pairwise_accuracy));
}

TEST_CASE("Weights multiply items", "[scoring][property]") {
  std::vector<ScoredForecast> weighted = Sample();
  std::vector<ScoredForecast> repeated;
  for (size_t i = 0; i < weighted.size(); ++i) {
    weighted[i].weight = static_cast<double>(i + 1);
    ScoredForecast one = weighted[i];
    one.weight = 1;
    repeated.insert(repeated.end(), i + 1, one);
  }
  const ForecastMetrics a = *ScoreForecasts(weighted);
  const ForecastMetrics b = *ScoreForecasts(repeated);
  CHECK(a.accuracy == Approx(b.accuracy));
  CHECK(a.crps == Approx(b.crps));
  CHECK(a.half_brier == Approx(b.half_brier));
  CHECK(a.negative_log_likelihood == Approx(b.negative_log_likelihood));
  CHECK(a.expected_calibration_error == Approx(b.expected_calibration_error));
}

TEST_CASE("An item that cannot be scored is reported", "[scoring]") {
  const auto error = [](const std::vector<ScoredForecast>& items) {
    const absl::StatusOr<ForecastMetrics> metrics = ScoreForecasts(items);
    CHECK(metrics.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(metrics.status().message());
  };
  CHECK_THAT(error({}), StartsWith("items: there are none"));
  CHECK_THAT(error({Item({}, 1, 0, 0)}), StartsWith("items: no item has probabilities"));
  CHECK_THAT(error({Item({1}, 1, 0, 0)}), StartsWith("items: no item has probabilities"));
  CHECK_THAT(error({Item({1, 0}, 1, 0, 0), Item({1, 0, 0}, 1, 0, 0)}),
             StartsWith("items[1].p: 3 values; earlier items have 2"));
  CHECK_THAT(error({Item({1, 0}, 0, 0, 0)}), StartsWith("items[0].true_bin: 0 is not from 1 to 2"));
  CHECK_THAT(error({Item({1, 0}, 3, 0, 0)}), StartsWith("items[0].true_bin: 3"));
  CHECK_THAT(error({Item({1.1, -0.1}, 1, 0, 0)}), StartsWith("items[0].p: -0.1"));
  CHECK_THAT(error({Item({kNan, 1}, 1, 0, 0)}), StartsWith("items[0].p: "));
  CHECK_THAT(error({Item({0.5, 0.4}, 1, 0, 0)}), StartsWith("items[0].p: the sum is 0.9"));
  CHECK_THAT(error({Item({1, 0}, 1, 0, 0, -1)}), StartsWith("items[0].weight: -1"));
  CHECK_THAT(error({Item({1, 0}, 1, 0, 0, 0)}), StartsWith("items: the weights"));
}

TEST_CASE("Rank correlation handles ties, few points and constants", "[scoring]") {
  const std::vector<double> x = {1, 2, 2, 3, 5, 5, 5, 8};
  const std::vector<double> y = {2, 1, 2, 2, 7, 3, 9, 9};
  CHECK(Spearman(x, y) == Approx(0.8607594936708861));
  CHECK(Spearman(x, x) == 1);
  const std::vector<double> up = {1, 2, 3};
  const std::vector<double> down = {3, 2, 1};
  const std::vector<double> flat = {4, 4, 4};
  CHECK(Spearman(up, down) == -1);
  CHECK(std::isnan(Spearman(up, flat)));
  CHECK(std::isnan(Spearman(std::vector<double>{1}, std::vector<double>{1})));
}

TEST_CASE("Pairwise accuracy counts forecast ties as half", "[scoring]") {
  const std::vector<double> x = {1, 2, 2, 3, 5, 5, 5, 8};
  const std::vector<double> y = {2, 1, 2, 2, 7, 3, 9, 9};
  CHECK(PairwiseAccuracy(x, y) == Approx(21.0 / 24));
  const std::vector<double> flat(8, 1);
  CHECK(PairwiseAccuracy(flat, y) == 0.5);
  CHECK(std::isnan(PairwiseAccuracy(x, flat)));
  CHECK(std::isnan(PairwiseAccuracy(std::vector<double>{1}, std::vector<double>{1})));
}

TEST_CASE("Pairwise accuracy equals a count over all pairs", "[scoring][property]") {
  std::mt19937_64 random(23);
  for (int round = 0; round < 100; ++round) {
    const size_t n = 2 + random() % 40;
    std::vector<double> x(n);
    std::vector<double> y(n);
    for (size_t i = 0; i < n; ++i) {
      x[i] = static_cast<double>(random() % 12);
      y[i] = static_cast<double>(random() % 12);
    }
    double right = 0;
    int pairs = 0;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (y[i] == y[j]) continue;
        ++pairs;
        right += x[i] == x[j] ? 0.5 : (x[i] < x[j]) == (y[i] < y[j]) ? 1 : 0;
      }
    }
    if (pairs == 0) continue;
    REQUIRE(PairwiseAccuracy(x, y) == Approx(right / pairs));
  }
}

}  // namespace
}  // namespace kernelcast
