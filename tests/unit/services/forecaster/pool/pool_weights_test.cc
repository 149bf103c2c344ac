#include "services/forecaster/pool/pool_weights.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

namespace kernelcast::forecaster {
namespace {

ForecastComponent Says(const std::string& backend, double p_in_bin_5, double failure = 0) {
  ForecastComponent component;
  component.backend = backend;
  component.bin_probabilities.assign(8, (1 - p_in_bin_5) / 7);
  component.bin_probabilities[4] = p_in_bin_5;
  component.failure_probability = failure;
  component.weight = 0.5;
  return component;
}

// Measured in bin 5, after these two forecasts.
Label MakeLabel(const ForecastComponent& one, const ForecastComponent& other) {
  Label label;
  label.candidate.target = "cpu";
  label.device_model = "A100";
  label.truth = Ratio{1.2, 1.1, 1.3, 0.95};
  Forecast forecast;
  forecast.bin_probabilities = one.bin_probabilities;
  forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  forecast.components = {one, other};
  label.forecast = forecast;
  return label;
}

TEST_CASE("Weights follow the discounted scores", "[forecaster][pool]") {
  PoolWeights weights;
  CHECK(weights.Second("cpu", "A100") == 0.5);
  const Label label = MakeLabel(Says("embedded", 0.2), Says("llm:m", 0.6));
  REQUIRE(weights.Learn(label, "embedded", "llm", "ref"));
  CHECK(weights.Second("cpu", "A100") == Approx(0.75));
  REQUIRE(weights.Learn(label, "embedded", "llm", "ref"));
  const double lead = 1.95 * std::log(3);
  CHECK(weights.Second("cpu", "A100") == Approx(std::exp(lead) / (1 + std::exp(lead))));
  CHECK(weights.Second("cpu", "A100") == Approx(0.895).margin(5e-4));
  // Another target is unaffected.
  CHECK(weights.Second("cuda", "A100") == 0.5);
}

TEST_CASE("Each device model has its own weights", "[forecaster][pool][devices]") {
  PoolWeights weights;
  // The one component is right on one device, the other on another.
  Label on_a = MakeLabel(Says("embedded", 0.2), Says("llm:m", 0.6));
  Label on_b = MakeLabel(Says("embedded", 0.6), Says("llm:m", 0.2));
  on_b.device_model = "L40S";
  for (int i = 0; i < 2; ++i) {
    REQUIRE(weights.Learn(on_a, "embedded", "llm", "ref"));
    REQUIRE(weights.Learn(on_b, "embedded", "llm", "ref"));
  }
  CHECK(weights.Second("cpu", "A100") == Approx(0.895).margin(5e-4));
  CHECK(weights.Second("cpu", "L40S") == Approx(0.105).margin(5e-4));
  CHECK(weights.Second("cpu", "H100") == 0.5);
}

TEST_CASE("A failure scores by its probability", "[forecaster][pool]") {
  PoolWeights weights;
  Label label = MakeLabel(Says("embedded", 0.5, 0.2), Says("llm", 0.5, 0.6));
  label.truth = FailureKind::kCrash;
  REQUIRE(weights.Learn(label, "embedded", "llm", "ref"));
  CHECK(weights.Second("cpu", "A100") == Approx(0.75));
  // Probability of being correct and in the bin: 0.8 * 0.5 and 0.4 * 0.5.
  PoolWeights other;
  label.truth = Ratio{1.2, 1.1, 1.3, 0.95};
  REQUIRE(other.Learn(label, "embedded", "llm", "ref"));
  CHECK(other.Second("cpu", "A100") == Approx(1.0 / 3));
}

TEST_CASE("A rare label represents the unmeasured ones up to a limit", "[forecaster][pool]") {
  PoolWeights weights;
  Label label = MakeLabel(Says("embedded", 0.3), Says("llm", 0.6));
  label.propensity = 0.5;
  REQUIRE(weights.Learn(label, "embedded", "llm", "ref"));
  CHECK(weights.Second("cpu", "A100") == Approx(0.8));  // 2^2 to 1
  PoolWeights limited({.discount = 1, .least_weight = 1e-9, .drop_below = 0});
  label.propensity = 0.01;
  REQUIRE(limited.Learn(label, "embedded", "llm", "ref"));
  CHECK(limited.Second("cpu", "A100") == Approx(32.0 / 33));  // 2^5 to 1
}

TEST_CASE("The model may lose its weight, the other never, and weights can reverse",
          "[forecaster][pool]") {
  PoolWeights weights;
  const Label good = MakeLabel(Says("embedded", 0.05), Says("llm", 0.9));
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(weights.Learn(good, "embedded", "llm", "ref"));
    CHECK(weights.Second("cpu", "A100") <= 0.9);
  }
  CHECK(weights.Second("cpu", "A100") == Approx(0.9));
  const Label bad = MakeLabel(Says("embedded", 0.9), Says("llm", 0.05));
  int labels = 0;
  while (weights.Second("cpu", "A100") > 0.5) {
    REQUIRE(weights.Learn(bad, "embedded", "llm", "ref"));
    REQUIRE(++labels < 100);
  }
  // 1,000 labels are discounted to twenty.
  CHECK(labels < 20);
  for (int i = 0; i < 1000; ++i) REQUIRE(weights.Learn(bad, "embedded", "llm", "ref"));
  CHECK(weights.Second("cpu", "A100") == 0);
  labels = 0;
  while (weights.Second("cpu", "A100") < 0.5) {
    REQUIRE(weights.Learn(good, "embedded", "llm", "ref"));
    REQUIRE(++labels < 20);
  }
}

TEST_CASE("A forecast that came after the decision is learnt from, too", "[forecaster][pool]") {
  PoolWeights weights;
  Label label = MakeLabel(Says("embedded", 0.2), Says("llm:m", 0.6));
  label.forecast->components.pop_back();
  // The pool of both would have given 0.4 to the bin.
  const std::optional<double> gain = weights.Learn(label, "embedded", Says("llm:m", 0.6), "ref");
  REQUIRE(gain.has_value());
  CHECK(*gain == Approx(std::log(2)));
  CHECK(weights.Second("cpu", "A100") == Approx(0.75));
}

TEST_CASE("A certain miss does not decide forever", "[forecaster][pool]") {
  PoolWeights weights;
  Label label = MakeLabel(Says("embedded", 0), Says("llm", 0.5));
  REQUIRE(weights.Learn(label, "embedded", "llm", "ref"));
  CHECK(weights.Second("cpu", "A100") ==
        Approx(0.9));  // 50 to 1 by the least probability, then limited
}

TEST_CASE("Uninformative labels are excluded", "[forecaster][pool]") {
  PoolWeights weights;
  const Label good = MakeLabel(Says("embedded", 0.2), Says("llm", 0.6));
  Label label = good;
  label.forecast.reset();
  CHECK_FALSE(weights.Learn(label, "embedded", "llm", "ref"));
  label = good;
  label.forecast->components.pop_back();
  CHECK_FALSE(weights.Learn(label, "embedded", "llm", "ref"));
  CHECK_FALSE(weights.Learn(good, "embedded", "other", "ref"));
  label = good;
  label.forecast->components[0].bin_probabilities.pop_back();
  CHECK_FALSE(weights.Learn(label, "embedded", "llm", "ref"));
  label = good;
  label.forecast->baseline_candidate_id = "k_other";
  CHECK_FALSE(weights.Learn(label, "embedded", "llm", "ref"));
  label.forecast->baseline_candidate_id = "ref";
  CHECK(weights.Learn(label, "embedded", "llm", "ref"));
}

}  // namespace
}  // namespace kernelcast::forecaster
