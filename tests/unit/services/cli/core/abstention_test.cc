#include "services/cli/core/abstention.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "common/domain/bins.h"

namespace kernelcast::cli {
namespace {

// An answer about row `i`, whose true bin is 4.
NamedOutcome Answer(const std::string& surrogate, int i, int bin, double confidence) {
  NamedOutcome named;
  named.backend = surrogate;
  named.outcome.cluster = "row" + std::to_string(i);
  named.outcome.speedup = 0.9;
  named.outcome.true_bin = 4;
  const int bins = BinScheme::Default().size();
  named.outcome.forecast.bin_probabilities.assign(static_cast<size_t>(bins),
                                                  (1 - confidence) / (bins - 1));
  named.outcome.forecast.bin_probabilities[static_cast<size_t>(bin - 1)] = confidence;
  return named;
}

NamedOutcome Abstained(const std::string& surrogate, int i) {
  NamedOutcome named = Answer(surrogate, i, 4, 0.5);
  named.outcome.forecast.bin_probabilities.clear();
  named.outcome.abstained = true;
  return named;
}

TEST_CASE("Abstention is compared with a threshold at the same coverage") {
  std::vector<NamedOutcome> outcomes;
  for (int i = 0; i < 10; ++i) {
    // Abstains on half of the rows, and is wrong about one of the others.
    outcomes.push_back(i < 5 ? Abstained("native", i) : Answer("native", i, i == 5 ? 1 : 4, 0.6));
    // Wrong about the three rows that it is least sure of.
    outcomes.push_back(Answer("forced", i, i < 3 ? 2 : 4, 0.3 + 0.05 * i));
    // Has no answer about the last row, so it cannot be compared.
    if (i < 9) outcomes.push_back(Answer("incomplete", i, 4, 0.9));
  }
  const auto evaluations = EvaluateAbstentions(outcomes, ConfidenceKind::kMaxProbability, true);
  REQUIRE(evaluations.ok());
  REQUIRE(evaluations->size() == 1);
  const AbstentionEvaluation& native = evaluations->front();
  CHECK(native.surrogate == "native");
  CHECK((native.rows == 10 && native.abstained == 5));
  CHECK(native.coverage == Approx(0.5));
  CHECK(native.risk == Approx(0.2));
  REQUIRE(native.thresholds.size() == 1);
  CHECK(native.thresholds[0].surrogate == "forced");
  CHECK(native.thresholds[0].risk == Approx(0));
}

TEST_CASE("Risks are compared at ten equal steps up to the coverage of the abstention") {
  // By confidence, the abstaining surrogate is right, right and wrong, and the other right, wrong,
  // wrong and right.
  const std::vector<NamedOutcome> outcomes = {
      Answer("native", 0, 4, 0.75), Answer("native", 1, 5, 0.65), Answer("native", 2, 4, 0.85),
      Abstained("native", 3),       Answer("forced", 0, 4, 0.51), Answer("forced", 1, 5, 0.65),
      Answer("forced", 2, 4, 0.85), Answer("forced", 3, 6, 0.55)};
  const auto evaluations = EvaluateAbstentions(outcomes, ConfidenceKind::kMaxProbability, true);
  const std::vector<RiskPoint>& own = evaluations->front().curve;
  const std::vector<RiskPoint>& threshold = evaluations->front().thresholds.at(0).curve;
  REQUIRE((own.size() == 10 && threshold.size() == 10));
  for (size_t i = 0; i < 10; ++i) {
    CHECK(own[i].coverage == Approx(0.075 * static_cast<double>(i + 1)));
    CHECK(threshold[i].coverage == Approx(own[i].coverage));
  }
  CHECK(own[4].risk == Approx(0).margin(1e-12));
  CHECK(own[7].risk == Approx((0.6 - 0.5) / 0.6));
  CHECK(own[9].risk == Approx(1.0 / 3));
  CHECK(threshold[2].risk == Approx(0).margin(1e-12));
  CHECK(threshold[4].risk == Approx((0.375 - 0.25) / 0.375));
  CHECK(threshold[9].risk == Approx(2.0 / 3));
}

TEST_CASE("The coverage of an abstention is weighted") {
  std::vector<NamedOutcome> outcomes = {Answer("native", 0, 4, 0.6), Abstained("native", 1)};
  outcomes[1].outcome.weight = 3;
  const auto weighted = EvaluateAbstentions(outcomes, ConfidenceKind::kMaxProbability, true);
  CHECK(weighted->front().coverage == Approx(0.25));
  const auto unweighted = EvaluateAbstentions(outcomes, ConfidenceKind::kMaxProbability, false);
  CHECK(unweighted->front().coverage == Approx(0.5));
}

TEST_CASE("A surrogate that always abstains has no risk") {
  const auto evaluations =
      EvaluateAbstentions({Abstained("native", 0)}, ConfidenceKind::kMaxProbability, true);
  REQUIRE(evaluations->size() == 1);
  CHECK(evaluations->front().coverage == 0);
  CHECK(std::isnan(evaluations->front().risk));
}

}  // namespace
}  // namespace kernelcast::cli
