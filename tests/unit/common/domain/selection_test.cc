#include "common/domain/selection.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

namespace kernelcast {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

ScoredForecast Item(std::vector<double> p, int true_bin, double weight = 1) {
  ScoredForecast item;
  item.unparsable = p.empty();
  item.p = std::move(p);
  item.true_bin = true_bin;
  item.weight = weight;
  return item;
}

std::vector<ScoredForecast> PoolSample() {
  return {Item({0.7, 0.2, 0.1, 0}, 1),
          Item({0.1, 0.3, 0.4, 0.2}, 2, 2),
          Item({0.25, 0.25, 0.25, 0.25}, 4),
          Item({0, 0, 0.1, 0.9}, 4, 4),
          Item({}, 3),
          Item({0, 1, 0, 0}, 1, 0.5),
          Item({0.7, 0.1, 0.1, 0.1}, 3)};
}

// Two share the first place and four the next; one has no forecast.
std::vector<PoolItem> Pool() {
  return {{2, 1.5, true},          {2, 3, true},    {1, 4, true},
          {1, 0, false},           {1, 0.8, false}, {1, 4, true},
          {kUndefined, 2.5, true}, {-1, 0.5, false}};
}

// The figures in this file come from a separate Python reference, which averages over all
// permutations of ties.

TEST_CASE("Confidence scores have their worked values", "[selection]") {
  const std::vector<double> p = {0.1, 0.3, 0.4, 0.2};
  CHECK(Confidence(ConfidenceKind::kMaxProbability, p) == Approx(0.4).epsilon(1e-12));
  CHECK(Confidence(ConfidenceKind::kEntropy, p) == Approx(0.07678032766449228).epsilon(1e-9));
  CHECK(Confidence(ConfidenceKind::kMargin, p) == Approx(0.1).epsilon(1e-9));
  const std::vector<double> sure = {0, 1, 0};
  for (const char* name : {"max-prob", "entropy", "margin"}) {
    CHECK(Confidence(*ParseConfidenceKind(name), sure) == 1);
  }
  CHECK_THAT(std::string(ParseConfidenceKind("luck").status().message()),
             Catch::Contains("max-prob, entropy, margin"));
}

TEST_CASE("The risk-coverage curve and its area have their worked values", "[selection]") {
  const RiskCoverage by_max = RiskCoverageOf(ConfidenceKind::kMaxProbability, PoolSample());
  CHECK(by_max.area == Approx(0.2991511985320035).epsilon(1e-9));
  REQUIRE(by_max.curve.size() == 5);
  CHECK(by_max.curve[0].coverage == Approx(0.047619047619047616).epsilon(1e-9));
  CHECK(by_max.curve[0].risk == 1);
  CHECK(by_max.curve[1].risk == Approx(0.1111111111111111).epsilon(1e-9));
  CHECK(by_max.curve[2].coverage == Approx(0.6190476190476191).epsilon(1e-9));
  CHECK(by_max.curve[2].risk == Approx(0.23076923076923078).epsilon(1e-9));
  CHECK(by_max.curve[3].risk == Approx(0.4117647058823529).epsilon(1e-9));
  CHECK(by_max.curve[4].coverage == Approx(1));
  CHECK(by_max.curve[4].risk == Approx(0.5).epsilon(1e-9));
  CHECK(by_max.curve[4].confidence == 0.25);
  CHECK(RiskCoverageOf(ConfidenceKind::kEntropy, PoolSample()).area ==
        Approx(0.2904931898739948).epsilon(1e-9));
  CHECK(RiskCoverageOf(ConfidenceKind::kMargin, PoolSample()).area ==
        Approx(0.3078092071900121).epsilon(1e-9));
}

TEST_CASE("Equally confident forecasts are averaged over their orders", "[selection]") {
  const std::vector<ScoredForecast> items = {Item({0.9, 0.1}, 2), Item({0.7, 0.3}, 1),
                                             Item({0.7, 0.3}, 2), Item({0.7, 0.3}, 2),
                                             Item({0.5, 0.5}, 1), Item({0.5, 0.5}, 2)};
  CHECK(RiskCoverageOf(ConfidenceKind::kMaxProbability, items).area ==
        Approx(0.787962962962963).epsilon(1e-9));
}

TEST_CASE("Measuring the top share has its worked values, with ties and gaps", "[selection]") {
  struct Case {
    double share;
    PoolSelection top;
    PoolSelection random;
  };
  const std::vector<Case> cases = {
      {0.1, {0.5625, 0, 0.2}, {0.509375, 0.25, 0.125}},
      {0.25, {0.75, 0, 0.4}, {0.7464285714285714, 0.4642857142857143, 0.25}},
      {0.5,
       {0.9583333333333334, 0.8333333333333334, 0.6},
       {0.9339285714285714, 0.7857142857142857, 0.5}},
      {0.625, {1, 1, 0.7}, {0.9709821428571429, 0.8928571428571429, 0.625}},
      {0.875, {1, 1, 0.8}, {1, 1, 0.875}},
      {1, {1, 1, 1}, {1, 1, 1}}};
  for (const Case& one : cases) {
    CAPTURE(one.share);
    const PoolSelection top = SelectFromPool(Pool(), one.share);
    CHECK(top.best_found == Approx(one.top.best_found).epsilon(1e-9));
    CHECK(top.best_recalled == Approx(one.top.best_recalled).epsilon(1e-9).margin(1e-12));
    CHECK(top.winner_recall == Approx(one.top.winner_recall).epsilon(1e-9));
    const PoolSelection random = SelectAtRandom(Pool(), one.share);
    CHECK(random.best_found == Approx(one.random.best_found).epsilon(1e-9));
    CHECK(random.best_recalled == Approx(one.random.best_recalled).epsilon(1e-9));
    CHECK(random.winner_recall == Approx(one.random.winner_recall).epsilon(1e-9));
  }
  CHECK(Regret(Pool()) == Approx(0.9150374992788437).epsilon(1e-9));
}

TEST_CASE("The maximum of several draws has its worked mean and median", "[selection]") {
  // From {1, 2, 4}: one draw is any of them; the larger of two draws is 2 once and 4 twice in
  // three.
  CHECK(LargestOfDraws({4, 1, 2}, 1).expected == Approx(7.0 / 3).epsilon(1e-12));
  CHECK(LargestOfDraws({4, 1, 2}, 1).median == 2);
  CHECK(LargestOfDraws({4, 1, 2}, 2).expected == Approx(10.0 / 3).epsilon(1e-12));
  CHECK(LargestOfDraws({4, 1, 2}, 2).median == 4);
  CHECK(LargestOfDraws({4, 1, 2}, 3).expected == 4);
  CHECK(LargestOfDraws({0, 0, 3}, 1).expected == Approx(1.0));
  CHECK(LargestOfDraws({0, 0, 3}, 1).median == 0);
}

TEST_CASE("Without a correct candidate or a winner there is no figure", "[selection]") {
  const std::vector<PoolItem> failed = {{1, 0, false}, {2, 0, false}};
  CHECK(std::isnan(SelectFromPool(failed, 0.5).best_found));
  CHECK(std::isnan(Regret(failed)));
  CHECK(std::isnan(SelectFromPool({}, 0.5).best_found));
  const std::vector<PoolItem> slow = {{1, 0.5, false}, {2, 0.25, false}};
  CHECK(SelectFromPool(slow, 0.5).best_found == 0.5);
  CHECK(std::isnan(SelectFromPool(slow, 0.5).winner_recall));
  const std::vector<PoolItem> failure_first = {{1, 0.5, false}, {2, 0, false}};
  CHECK(Regret(failure_first) == 3);
}

TEST_CASE("Choosing from large pools neither overflows nor leaves the range",
          "[selection][property]") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 50; ++round) {
    std::vector<PoolItem> pool(1 + random() % 3000);
    for (PoolItem& item : pool) {
      item.forecast = static_cast<double>(random() % 7);
      item.speedup = static_cast<double>(random() % 100) / 10;
      item.winner = item.speedup > 1;
    }
    if (std::isnan(Regret(pool))) continue;
    double before = 0;
    for (const double share : {0.001, 0.01, 0.1, 0.3, 0.7, 1.0}) {
      const PoolSelection chosen = SelectFromPool(pool, share);
      REQUIRE(chosen.best_found >= before - 1e-9);
      REQUIRE(chosen.best_found <= 1 + 1e-9);
      REQUIRE(chosen.best_recalled >= 0);
      REQUIRE(chosen.best_recalled <= 1 + 1e-9);
      before = chosen.best_found;
    }
    REQUIRE(before == Approx(1));
  }
}

TEST_CASE("The risk at a coverage is interpolated within equal confidences", "[selection]") {
  RiskCoverage risk;
  risk.curve = {{0.25, 0, 0.9}, {0.5, 0.5, 0.6}, {1, 0.5, 0.2}};
  CHECK(RiskAt(risk, 0.1) == Approx(0));
  CHECK(RiskAt(risk, 0.25) == Approx(0));
  CHECK(RiskAt(risk, 0.375) == Approx(0.125 / 0.375));
  CHECK(RiskAt(risk, 0.5) == Approx(0.5));
  CHECK(RiskAt(risk, 1) == Approx(0.5));
}

}  // namespace
}  // namespace kernelcast
