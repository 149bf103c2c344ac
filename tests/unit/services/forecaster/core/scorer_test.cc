#include "services/forecaster/core/scorer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

namespace kernelcast::forecaster {
namespace {

Forecast InBin(int bin, double p) {
  Forecast forecast;
  forecast.bin_probabilities.assign(8, (1 - p) / 7);
  forecast.bin_probabilities[bin - 1] = p;
  forecast.predicted_bin = bin;
  forecast.expected_log2_speedup = BinScheme::Default().Log2Midpoint(bin);
  forecast.stddev_log2_speedup = 0.5;
  return forecast;
}

constexpr char kAnswer[] =
    R"({"p_severe_slowdown":0,"p_significant_slowdown":0,"p_moderate_slowdown":0,)"
    R"("p_minor_slowdown":0,"p_minor_speedup":1,"p_significant_speedup":0,"p_high_speedup":0,)"
    R"("p_extreme_speedup":0,"predicted_bin":5})";

Scores MustScore(const std::vector<ScoreItem>& items, RewardKind reward = RewardKind::kHitBrier) {
  const absl::StatusOr<Scores> scores = Score(BinScheme::Default(), reward, items);
  INFO(scores.status());
  REQUIRE(scores.ok());
  return *scores;
}

TEST_CASE("A certain hit gets the full reward", "[forecaster][scorer]") {
  const Scores scores = MustScore({{"a", "g", std::string(kAnswer), Speedup{1.2}}});
  REQUIRE(scores.items.size() == 1);
  CHECK(scores.items[0].reward == Approx(2));
  CHECK(scores.items[0].true_bin == 5);
  CHECK(scores.items[0].predicted_bin == 5);
  CHECK(scores.items[0].parse_status == ParseStatus::kOk);
  CHECK(scores.metrics.accuracy == 1);
}

TEST_CASE("Scores match the scoring rules", "[forecaster][scorer]") {
  const Forecast forecast = InBin(5, 0.65);
  const Scores scores = MustScore({{"a", "", forecast, TrueBin{6}}}, RewardKind::kHitCrps);
  const ItemScore& item = scores.items[0];
  CHECK(item.hit == 0);
  CHECK(item.half_brier == Approx(HalfBrier(forecast.bin_probabilities, 6)));
  CHECK(item.crps == Approx(RankedProbability(forecast.bin_probabilities, 6)));
  CHECK(item.negative_log_likelihood == Approx(-std::log(0.05)));
  CHECK(item.reward == Approx(1 - item.crps));
}

TEST_CASE("An unparsable answer has no reward and counts as uniform", "[forecaster][scorer]") {
  const Scores scores = MustScore({{"a", "", std::string("{"), TrueBin{4}}});
  CHECK(scores.items[0].reward == 0);
  CHECK(scores.items[0].parse_status == ParseStatus::kUnparsable);
  CHECK(scores.items[0].negative_log_likelihood == Approx(std::log(8.0)));
  CHECK(scores.metrics.unparsable == 1);
}

TEST_CASE("A deferral has no reward and is excluded from the metrics", "[forecaster][scorer]") {
  const Scores scores = MustScore({{"a", "", std::string(R"({"reason": "unsure"})"), TrueBin{4}},
                                   {"b", "", InBin(4, 0.9), TrueBin{4}}});
  CHECK(scores.items[0].reward == 0);
  CHECK(scores.items[0].parse_status == ParseStatus::kDeferred);
  CHECK(scores.metrics.items == 1);
  CHECK(scores.metrics.accuracy == 1);
}

TEST_CASE("A failure is scored on its own probability", "[forecaster][scorer]") {
  Forecast forecast = InBin(4, 0.9);
  forecast.failure_probability = 0.8;
  const Scores scores = MustScore({{"a", "", forecast, FailureKind::kCrash},
                                   {"b", "", std::string(kAnswer), FailureKind::kCrash}});
  CHECK(scores.items[0].hit == 1);
  CHECK(scores.items[0].true_bin == 0);
  CHECK(scores.items[0].half_brier == Approx(0.04));
  CHECK(scores.items[0].reward == Approx(1.96));
  CHECK(scores.items[1].reward == 0);
  CHECK(scores.metrics.items == 0);
}

TEST_CASE("A raw answer with a failure probability is scored on it", "[forecaster][scorer]") {
  std::string answer = kAnswer;
  answer.insert(1, R"("p_failure":0.8,)");
  const Scores scores = MustScore({{"a", "", answer, FailureKind::kCrash}});
  CHECK(scores.items[0].parse_status == ParseStatus::kOk);
  CHECK(scores.items[0].hit == 1);
  CHECK(scores.items[0].reward == Approx(1.96));
}

TEST_CASE("Groups have the mean and deviation of their rewards", "[forecaster][scorer]") {
  const Scores scores = MustScore({{"a", "one", std::string(kAnswer), TrueBin{5}},
                                   {"b", "one", std::string("?"), TrueBin{5}},
                                   {"c", "two", std::string(kAnswer), TrueBin{5}}});
  REQUIRE(scores.groups.size() == 2);
  CHECK(scores.groups[0].group_id == "one");
  CHECK(scores.groups[0].items == 2);
  CHECK(scores.groups[0].mean_reward == Approx(1));
  CHECK(scores.groups[0].stddev_reward == Approx(1));
  CHECK(scores.groups[1].stddev_reward == 0);
}

TEST_CASE("A malformed item is reported", "[forecaster][scorer]") {
  const auto message = [](ScoreItem item) {
    const absl::StatusOr<Scores> scores =
        Score(BinScheme::Default(), RewardKind::kHit,
              std::vector<ScoreItem>{{"ok", "", InBin(4, 0.9), TrueBin{4}}, std::move(item)});
    CHECK(absl::IsInvalidArgument(scores.status()));
    return std::string(scores.status().message());
  };
  using Catch::Matchers::StartsWith;
  CHECK_THAT(message({"x", "", InBin(4, 0.9), Speedup{-1}}), StartsWith("items[1].speedup:"));
  CHECK_THAT(message({"x", "", InBin(4, 0.9), TrueBin{0}}), StartsWith("items[1].true_bin:"));
  CHECK_THAT(message({"x", "", InBin(4, 0.9), TrueBin{9}}), StartsWith("items[1].true_bin:"));
  Forecast other = InBin(4, 0.9);
  other.bin_scheme_id = "paper-floor/1";
  CHECK_THAT(message({"x", "", other, TrueBin{4}}), StartsWith("items[1].forecast"));
  Forecast broken = InBin(4, 0.9);
  broken.bin_probabilities[0] = 0.5;
  CHECK_THAT(message({"x", "", broken, TrueBin{4}}), StartsWith("items[1].forecast"));
}

TEST_CASE("Scoring nothing gives empty scores", "[forecaster][scorer]") {
  const Scores scores = MustScore({});
  CHECK(scores.items.empty());
  CHECK(scores.groups.empty());
  CHECK(scores.metrics.items == 0);
}

}  // namespace
}  // namespace kernelcast::forecaster
