#include "services/forecaster/llm/combined_comparisons.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "services/forecaster/core/anchoring.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

using Cause = Abstention::Cause;

// A forecast of one bin, with this deviation, P(failure) and cost.
kernelcast::Forecast SureOf(int bin, double deviation, double failure = 0) {
  kernelcast::Forecast forecast;
  forecast.bin_scheme_id = BinScheme::Default().id();
  forecast.bin_probabilities.assign(static_cast<size_t>(BinScheme::Default().size()), 0.0);
  forecast.bin_probabilities[static_cast<size_t>(bin) - 1] = 1;
  forecast.predicted_bin = bin;
  forecast.expected_log2_speedup = BinScheme::Default().Log2Midpoint(bin);
  forecast.stddev_log2_speedup = deviation;
  forecast.failure_probability = failure;
  forecast.token_usage.input_tokens = 100;
  forecast.model = ModelAnswer{ModelOutcome::kUsed};
  forecast.model->token_usage = forecast.token_usage;
  return forecast;
}

ForecastResult DeclinedAnswer() {
  Abstention abstention{Cause::kModelDeferred, "llm", "too close"};
  abstention.model = ModelAnswer{ModelOutcome::kDeclined};
  abstention.model->token_usage.input_tokens = 30;
  return abstention;
}

// Answers questions with and without an anchor differently.
class TwoAnswers final : public Backend {
 public:
  std::string_view name() const override { return "llm"; }
  void Forecast(ForecastInput input, const ForecastCall& call, Done done) override {
    const bool anchored = input.anchor != nullptr;
    ++(anchored ? with_anchor : with_reference);
    again += call.again ? 1 : 0;
    done(anchored ? anchor : reference);
  }
  void Observe(std::vector<ObservedLabel>) override {}
  BackendDescription Describe() const override { return {}; }

  ForecastResult anchor = SureOf(5, 0.5);
  ForecastResult reference = SureOf(4, 1);
  int with_anchor = 0, with_reference = 0, again = 0;
};

struct ComparisonFixture {
  ComparisonFixture() {
    static const PlantedProblem& planted = *new PlantedProblem();
    input.problem = planted.context();
    input.candidate = planted.candidates()[0];
    AnchorKernel anchor;
    anchor.candidate = planted.candidates()[1];
    anchor.speedup = {2, 2, 2, 0.95};
    input.anchor = std::make_shared<const AnchorKernel>(std::move(anchor));
  }
  ForecastResult Ask(bool again = false) {
    ForecastCall call;
    call.again = again;
    ForecastResult got;
    backend.Forecast(input, call, [&got](ForecastResult result) { got = std::move(result); });
    return got;
  }

  TwoAnswers inner;
  CombinedComparisons backend{&inner};
  ForecastInput input;
};

TEST_CASE("Weights are inversely proportional to the variances, within limits",
          "[forecaster][llm]") {
  CHECK(AnchorWeight(SureOf(5, 1), SureOf(4, 1)) == Approx(0.5));
  // Variances 0.25 and 0.5625: 0.5625 / 0.8125.
  CHECK(AnchorWeight(SureOf(5, 0.5), SureOf(4, 0.75)) == Approx(0.6923).epsilon(1e-3));
  CHECK(AnchorWeight(SureOf(5, 0.1), SureOf(4, 1)) == Approx(0.8));
  CHECK(AnchorWeight(SureOf(5, 1), SureOf(4, 0)) == Approx(0.2));
  CHECK(AnchorWeight(SureOf(5, 0), SureOf(4, 0)) == Approx(0.5));
}

TEST_CASE("Both comparisons are asked and pooled on the scale of the reference",
          "[forecaster][llm]") {
  ComparisonFixture fixture;
  kernelcast::Forecast anchored = SureOf(5, 0.5);
  RelativeToReference(BinScheme::Default(), {"k_parent", 2}, anchored);
  fixture.inner.anchor = anchored;
  const auto combined = std::get<kernelcast::Forecast>(fixture.Ask());
  CHECK(fixture.inner.with_anchor == 1);
  CHECK(fixture.inner.with_reference == 1);
  const double weight = AnchorWeight(anchored, SureOf(4, 1));
  for (size_t i = 0; i < combined.bin_probabilities.size(); ++i) {
    const double reference = i == 3 ? 1 : 0;
    CHECK(combined.bin_probabilities[i] ==
          Approx(weight * anchored.bin_probabilities[i] + (1 - weight) * reference));
  }
  REQUIRE(combined.anchor.has_value());
  CHECK(combined.anchor->speedup == 2);
  // Both questions are paid for.
  CHECK(combined.token_usage.input_tokens == 200);
  CHECK(combined.model->token_usage.input_tokens == 200);
  CHECK(ValidateForecast(combined).ok());
}

TEST_CASE("Without an anchor there is one question", "[forecaster][llm]") {
  ComparisonFixture fixture;
  fixture.input.anchor = nullptr;
  CHECK(std::get<kernelcast::Forecast>(fixture.Ask()).predicted_bin == 4);
  CHECK(fixture.inner.with_anchor + fixture.inner.with_reference == 1);
}

TEST_CASE("The forecast of one comparison stands if the other has none", "[forecaster][llm]") {
  ComparisonFixture fixture;
  fixture.inner.anchor = DeclinedAnswer();
  const auto reference = std::get<kernelcast::Forecast>(fixture.Ask());
  CHECK(reference.predicted_bin == 4);
  CHECK(reference.model->token_usage.input_tokens == 130);
  const auto anchor =
      std::get<kernelcast::Forecast>(CombineComparisons(SureOf(5, 1), DeclinedAnswer()));
  CHECK(anchor.predicted_bin == 5);
  CHECK(anchor.token_usage.input_tokens == 130);
  const auto neither = std::get<Abstention>(CombineComparisons(DeclinedAnswer(), DeclinedAnswer()));
  CHECK(neither.cause == Cause::kModelDeferred);
  CHECK(neither.model->token_usage.input_tokens == 60);
}

TEST_CASE("Asked again, the combined answer is repeated at no cost", "[forecaster][llm]") {
  ComparisonFixture fixture;
  const auto first = std::get<kernelcast::Forecast>(fixture.Ask());
  const auto repeated = std::get<kernelcast::Forecast>(fixture.Ask(/*again=*/true));
  CHECK(repeated.bin_probabilities == first.bin_probabilities);
  CHECK(repeated.token_usage.input_tokens == 0);
  CHECK(fixture.inner.with_anchor == 1);
  CHECK(fixture.inner.again == 0);
  // A candidate that was never asked about is the inner backend's business.
  fixture.input.candidate.candidate_id = "k_other";
  fixture.Ask(/*again=*/true);
  CHECK(fixture.inner.again == 1);
}

TEST_CASE("An answer is not repeated for another problem or device model", "[forecaster][llm]") {
  ComparisonFixture fixture;
  fixture.Ask();
  SECTION("another problem, whose reference is the baseline") {
    fixture.input.baseline_candidate_id = "k_another_reference";
  }
  SECTION("another device model") { fixture.input.device_model = "another GPU"; }
  fixture.Ask(/*again=*/true);
  CHECK(fixture.inner.again == 1);
}

}  // namespace
}  // namespace kernelcast::forecaster
