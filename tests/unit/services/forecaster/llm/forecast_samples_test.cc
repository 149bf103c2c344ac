#include "services/forecaster/llm/forecast_samples.h"

#include <catch2/catch.hpp>
#include <string>
#include <variant>
#include <vector>

namespace kernelcast::forecaster {
namespace {

ForecastSample Readable(double failure_probability) {
  ForecastSample sample;
  ParsedAnswer& answer = sample.answer.emplace();
  answer.status = ParseStatus::kOk;
  answer.forecast.bin_probabilities = {0, 0, 0, 0, 1, 0, 0, 0};
  answer.forecast.failure_probability = failure_probability;
  return sample;
}

ForecastSample Deferred(const std::string& reason) {
  ForecastSample sample;
  sample.answer.emplace().status = ParseStatus::kDeferred;
  sample.answer->forecast.rationale = reason;
  return sample;
}

ForecastSample Unreadable() {
  ForecastSample sample;
  sample.answer.emplace().fault = AnswerFault::kTooLong;
  sample.answer->error = "the answer does not end";
  sample.excerpt = "well,";
  return sample;
}

ForecastSample Failed() {
  ForecastSample sample;
  sample.failure = Abstain(Abstention::Cause::kEndpointUnavailable, "down");
  return sample;
}

PooledSamples Pool(const std::vector<ForecastSample>& samples) {
  std::vector<const ForecastSample*> pointers;
  for (const ForecastSample& sample : samples) pointers.push_back(&sample);
  return PoolSamples({.bin_scheme = BinScheme::Default(),
                      .anchor = nullptr,
                      .model = "m",
                      .prompt_version = "p/1",
                      .backend_version = "llm/1"},
                     pointers);
}

TEST_CASE("Readable answers are pooled with equal weights") {
  const PooledSamples pooled = Pool({Readable(0.2), Failed(), Readable(0.4)});
  const auto& forecast = std::get<kernelcast::Forecast>(pooled.result);
  CHECK(forecast.failure_probability == Approx(0.3));
  CHECK(forecast.backend == "llm:m");
  CHECK(forecast.prompt_version == "p/1");
  CHECK_FALSE(pooled.complete);
  CHECK(Pool({Readable(0.2), Readable(0.4)}).complete);
}

TEST_CASE("A model that declines as often as it forecasts has deferred") {
  const PooledSamples pooled = Pool({Readable(0), Deferred("unsure")});
  const auto& abstention = std::get<Abstention>(pooled.result);
  CHECK(abstention.cause == Abstention::Cause::kModelDeferred);
  CHECK(abstention.reason == "unsure");
  CHECK(pooled.complete);
  CHECK(std::holds_alternative<kernelcast::Forecast>(
      Pool({Readable(0), Readable(0), Deferred("unsure")}).result));
}

TEST_CASE("Without a readable answer an unreadable one counts more than a failure") {
  const ForecastResult unreadable = Pool({Unreadable(), Failed()}).result;
  const auto& abstention = std::get<Abstention>(unreadable);
  CHECK(abstention.cause == Abstention::Cause::kUnparsable);
  REQUIRE(abstention.model.has_value());
  CHECK(abstention.model->detail == "well,");
  const ForecastResult failed = Pool({Failed()}).result;
  CHECK(std::get<Abstention>(failed).cause == Abstention::Cause::kEndpointUnavailable);
}

}  // namespace
}  // namespace kernelcast::forecaster
