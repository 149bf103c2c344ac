#include "services/orchestrator/core/risk_monitor.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <random>
#include <string>

namespace kernelcast::orchestrator {
namespace {

using Truth = RiskMonitor::Truth;

Truth TruthOf(bool won) { return won ? Truth::kWon : Truth::kLost; }

void CountOne(RiskMonitor& monitor, const std::string& id, double win_probability, bool won) {
  static int forecast = 0;
  monitor.Decide(id, win_probability, ++forecast, 1, true, false);
  monitor.Settle(id, TruthOf(won), std::nullopt);
}

// Gives the monitor well-ordered forecasts with certain win probabilities.
RiskMonitor Informed(RiskOptions options = {}) {
  RiskMonitor monitor(options);
  for (int i = 0; i < 60; ++i) {
    const std::string id = "informed" + std::to_string(i);
    monitor.Decide(id, 1, i % 2, 1, true, false);
    monitor.Settle(id, Truth::kLost, i % 2);
  }
  REQUIRE(monitor.informative());
  return monitor;
}

TEST_CASE("A threshold is certified after exactly enough candidates without a winner") {
  // 0.7 (1 + 0.99 / 19)^n + ... >= 6 / (0.05 / 2)
  RiskMonitor monitor = Informed({.alpha = 0.05, .delta = 0.05});
  int needed = 0;
  while (monitor.threshold() == 0 && needed < 1000) {
    CountOne(monitor, std::to_string(++needed), 0.15, false);
  }
  const double exact = std::log(240 / 0.7) / std::log1p(0.99 / 19);
  CHECK(needed <= std::ceil(exact));
  CHECK(needed >= std::ceil(exact) - 5);
  // No candidate was below 0.15, so the evidence certifies only the highest threshold.
  CHECK(monitor.threshold() == 0.4);
  CHECK(monitor.selective_risk().estimate == 0);
}

TEST_CASE("A candidate measured for exceeding a threshold is no evidence about it") {
  RiskMonitor monitor = Informed({.alpha = 0.1, .delta = 0.1});
  for (int i = 0; i < 500; ++i) CountOne(monitor, std::to_string(i), 0.6, i % 2 == 0);
  CHECK(monitor.threshold() == 0);
}

TEST_CASE("A threshold with frequent winners below is not certified but lower ones are") {
  RiskMonitor monitor = Informed({.alpha = 0.05, .delta = 0.05});
  for (int i = 0; i < 400; ++i) {
    CountOne(monitor, "a" + std::to_string(i), 0.03, false);
    CountOne(monitor, "b" + std::to_string(i), 0.15, i % 4 == 0);
  }
  CHECK(monitor.threshold() == 0.1);
}

TEST_CASE("A pending measurement holds back later decisions") {
  RiskMonitor monitor = Informed({.alpha = 0.1, .delta = 0.1});
  monitor.Decide("first", 0.05, 0.5, 1, true, false);
  for (int i = 0; i < 300; ++i) CountOne(monitor, std::to_string(i), 0.05, false);
  CHECK(monitor.threshold() == 0);
  monitor.Settle("first", Truth::kUnknown, std::nullopt);
  CHECK(monitor.threshold() == 0.4);
}

TEST_CASE("A measurement that never ends holds back a bounded number of decisions") {
  RiskMonitor monitor = Informed({.alpha = 0.1, .delta = 0.1});
  monitor.Decide("stuck", 0.05, 0.5, 1, true, false);
  for (size_t i = 0; i < RiskMonitor::kMaxWaiting - 1; ++i) {
    monitor.Decide("pruned", 0.05, static_cast<double>(i), 0.5, false, true);
  }
  CHECK(monitor.selective_risk().pruned == 0);
  monitor.Decide("one more", 0.05, -1, 0.5, false, true);
  CHECK(monitor.selective_risk().pruned == RiskMonitor::kMaxWaiting);
  // A late result is ignored and harmless.
  monitor.Settle("stuck", Truth::kWon, std::nullopt);
  CHECK(monitor.selective_risk().estimate == 0);
}

TEST_CASE("Outcomes count in decision order whatever their arrival order") {
  RiskMonitor in_order = Informed({.alpha = 0.1, .delta = 0.1});
  RiskMonitor reversed = in_order;
  for (RiskMonitor* monitor : {&in_order, &reversed}) {
    for (int i = 0; i < 50; ++i) monitor->Decide(std::to_string(i), 0.05, i, 0.5, true, true);
  }
  for (int i = 0; i < 50; ++i) in_order.Settle(std::to_string(i), TruthOf(i % 9 == 0), i % 5);
  for (int i = 49; i >= 0; --i) reversed.Settle(std::to_string(i), TruthOf(i % 9 == 0), i % 5);
  CHECK(in_order.Digest() == reversed.Digest());
}

TEST_CASE("The risk of pruning is estimated from audits by their propensity") {
  RiskMonitor monitor;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform;
  int winners = 0;
  const int pruned = 20000;
  for (int i = 0; i < pruned; ++i) {
    const bool won = uniform(random) < 0.03;
    winners += won ? 1 : 0;
    const double propensity = 0.05 + 0.3 * uniform(random);
    const bool audited = uniform(random) < propensity;
    const std::string id = std::to_string(i);
    monitor.Decide(id, 0.03, i, propensity, audited, propensity < 1);
    if (audited) monitor.Settle(id, TruthOf(won), std::nullopt);
  }
  const SelectiveRisk risk = monitor.selective_risk();
  const double truth = static_cast<double>(winners) / pruned;
  CHECK(risk.pruned == static_cast<uint64_t>(pruned));
  CHECK(risk.labels > 3000);
  CHECK(risk.low <= truth);
  CHECK(risk.high >= truth);
  CHECK(risk.estimate == Approx(truth).margin(0.01));
  CHECK(risk.high - risk.low < 0.06);
}

// Candidates below the grid's highest threshold, a share `rate` of them winners, decided by the
// risk policy's rules. Returns whether a threshold was ever certified.
bool EverCertified(double rate, RiskOptions options, uint32_t seed) {
  RiskMonitor monitor = Informed(options);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform;
  for (int i = 0; i < 600; ++i) {
    const double win_probability = 0.4 * uniform(random);
    const bool won = uniform(random) < rate;
    const bool prunable = win_probability < monitor.threshold();
    const double propensity = prunable ? 0.1 : 1;
    const bool measured = uniform(random) < propensity;
    const std::string id = std::to_string(i);
    monitor.Decide(id, win_probability, i, propensity, measured, propensity < 1);
    if (measured) monitor.Settle(id, TruthOf(won), std::nullopt);
    if (monitor.threshold() > 0) return true;
  }
  return false;
}

TEST_CASE("With a winner rate just above alpha false certificates are rarer than delta") {
  const double alpha = GENERATE(0.05, 0.1);
  const RiskOptions options{alpha, 0.1};
  int certified = 0;
  constexpr int kRuns = 400;
  for (uint32_t seed = 1; seed <= kRuns; ++seed) {
    certified += EverCertified(1.02 * alpha, options, seed) ? 1 : 0;
  }
  CHECK(certified <= 0.1 * kRuns);
}

TEST_CASE("Without winners a threshold is certified in every run") {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    CHECK(EverCertified(0, {0.05, 0.05}, seed));
  }
}

TEST_CASE("Audits detect a forecaster that degrades, and certification ends") {
  RiskMonitor monitor = Informed({.alpha = 0.05, .delta = 0.05});
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform;
  int id = 0;
  const auto decide = [&](double rate) {
    const bool prunable = 0.05 < monitor.threshold();
    const double propensity = prunable ? 0.1 : 1;
    const bool measured = uniform(random) < propensity;
    ++id;
    monitor.Decide(std::to_string(id), 0.05, id, propensity, measured, propensity < 1);
    if (measured) {
      monitor.Settle(std::to_string(id), TruthOf(uniform(random) < rate), std::nullopt);
    }
    return measured;
  };
  for (int i = 0; i < 400; ++i) decide(0);
  REQUIRE(monitor.threshold() > 0);
  CHECK(monitor.alarms() == 0);
  int until_alarm = 0;
  while (monitor.alarms() == 0 && until_alarm < 2000) {
    decide(0.6);
    ++until_alarm;
  }
  CHECK(until_alarm < 300);
  CHECK(monitor.threshold() == 0);
  // From then on everything is measured.
  int measured = 0;
  for (int i = 0; i < 100; ++i) measured += decide(0.6) ? 1 : 0;
  CHECK(measured == 100);
}

TEST_CASE("Forecasts that stay accurate raise no alarm") {
  RiskMonitor monitor = Informed({.alpha = 0.05, .delta = 0.05});
  std::mt19937 random(11);
  std::uniform_real_distribution<double> uniform;
  for (int i = 0; i < 20000; ++i) {
    const bool prunable = 0.05 < monitor.threshold();
    const double propensity = prunable ? 0.1 : 1;
    const bool measured = uniform(random) < propensity;
    monitor.Decide(std::to_string(i), 0.05, i, propensity, measured, propensity < 1);
    if (measured) {
      monitor.Settle(std::to_string(i), TruthOf(uniform(random) < 0.01), std::nullopt);
    }
  }
  CHECK(monitor.alarms() == 0);
  CHECK(monitor.threshold() > 0);
}

// Whether forecasts that are ordered correctly with probability `in_order` were taken for
// informative.
bool TakenForInformative(double in_order, int candidates, uint32_t seed) {
  RiskMonitor monitor({.alpha = 0.05, .delta = 0.05});
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  for (int i = 0; i < candidates; i += 2) {
    const double first = normal(random);
    const double second = normal(random);
    const double sign = uniform(random) < in_order ? 1 : -1;
    monitor.Decide(std::to_string(i), 0.5, sign * first, 1, true, false);
    monitor.Settle(std::to_string(i), Truth::kLost, first);
    monitor.Decide(std::to_string(i + 1), 0.5, sign * second, 1, true, false);
    monitor.Settle(std::to_string(i + 1), Truth::kLost, second);
    if (monitor.informative()) return true;
  }
  return false;
}

TEST_CASE("Uninformative or inverted forecasts are rarely taken for informative") {
  int blind = 0;
  int inverted = 0;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    blind += TakenForInformative(0.5, 1000, seed) ? 1 : 0;
    inverted += TakenForInformative(0.1, 1000, seed) ? 1 : 0;
    CHECK(TakenForInformative(0.9, 200, seed));
  }
  CHECK(blind <= 10);
  CHECK(inverted == 0);
}

TEST_CASE("A constant forecast certifies nothing and revokes earlier certificates") {
  RiskMonitor constant({.alpha = 0.05, .delta = 0.05});
  for (int i = 0; i < 500; ++i) {
    constant.Decide(std::to_string(i), 0.03, 0, 1, true, false);
    constant.Settle(std::to_string(i), Truth::kLost, i % 7);
  }
  CHECK_FALSE(constant.informative());
  CHECK(constant.threshold() == 0);

  RiskMonitor monitor = Informed();
  for (int i = 0; i < 200; ++i) CountOne(monitor, std::to_string(i), 0.03, false);
  REQUIRE(monitor.threshold() > 0);
  for (int i = 0; i < RiskMonitor::kSameForecasts; ++i) {
    monitor.Decide("same" + std::to_string(i), 0.03, 0.25, 0.05, false, true);
  }
  CHECK(monitor.threshold() == 0);
  CHECK(monitor.alarms() == 1);
}

}  // namespace
}  // namespace kernelcast::orchestrator
