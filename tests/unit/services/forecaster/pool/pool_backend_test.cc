#include "services/forecaster/pool/pool_backend.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

using Catch::Matchers::StartsWith;
using Cause = Abstention::Cause;

// Answers at once with what the test set.
class FixedBackend final : public Backend {
 public:
  FixedBackend(std::string name, ForecastResult first)
      : result(std::move(first)), name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  void Forecast(ForecastInput, const ForecastCall& call, Done done) override {
    ++asked;
    last_call = call;
    done(result);
  }
  void Observe(std::vector<ObservedLabel>) override { ++observed; }
  BackendDescription Describe() const override {
    BackendDescription description;
    description.name = name_;
    description.version = name_ + "/1";
    return description;
  }

  ForecastResult result;
  int asked = 0;
  int observed = 0;
  ForecastCall last_call;

 private:
  const std::string name_;
};

const PlantedProblem& Planted() {
  static const PlantedProblem& problem = *new PlantedProblem();
  return problem;
}

ForecastInput Input() {
  ForecastInput input;
  input.problem = Planted().context();
  input.candidate = Planted().candidates()[0];
  return input;
}

// The mass of bins 4 and 5, the rest of it in bin 1.
Forecast Of(const std::string& backend, double p4, double p5, double failure = 0) {
  Forecast forecast;
  forecast.bin_probabilities = {std::max(0.0, 1 - p4 - p5), 0, 0, p4, p5, 0, 0, 0};
  forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  forecast.failure_probability = failure;
  forecast.stddev_log2_speedup = 0.5;
  forecast.backend = backend;
  forecast.backend_version = backend + "/1";
  forecast.labels_seen = backend == "embedded" ? 7 : 0;
  return forecast;
}

ObservedLabel Observed(const Label& label) {
  ObservedLabel observed;
  observed.problem = Planted().context();
  observed.label = label;
  return observed;
}

struct Fixture {
  ForecastResult Ask(const ForecastCall& call = {}) {
    std::optional<ForecastResult> result;
    pool.Forecast(Input(), call, [&](ForecastResult got) {
      CHECK_FALSE(result.has_value());
      result = std::move(got);
    });
    REQUIRE(result.has_value());
    return *result;
  }
  Forecast AskForecast() { return std::get<Forecast>(Ask()); }

  FakeClock clock;
  MetricsRegistry registry;
  PoolMetrics metrics{registry};
  FixedBackend cheap{"embedded", Of("embedded", 0.5, 0.5)};
  FixedBackend costly{"llm", Of("llm:m", 0.1, 0.9)};
  PoolBackend pool{{}, &cheap, &costly, &metrics, clock};
};

TEST_CASE("What is open is asked of both and pooled", "[forecaster][pool]") {
  Fixture fixture;
  const Forecast forecast = fixture.AskForecast();
  CHECK(forecast.bin_probabilities[3] == Approx(0.3));
  CHECK(forecast.bin_probabilities[4] == Approx(0.7));
  CHECK(ValidateForecast(forecast).ok());
  CHECK(forecast.backend == "pool");
  CHECK(forecast.backend_version == "pool/1+embedded/1+llm:m/1");
  CHECK(forecast.labels_seen == 7);
  REQUIRE(forecast.components.size() == 2);
  CHECK(forecast.components[0].backend == "embedded");
  CHECK(forecast.components[1].backend == "llm:m");
  CHECK(forecast.components[1].weight == 0.5);
  CHECK(forecast.components[1].bin_probabilities[4] == Approx(0.9));
  CHECK_THAT(fixture.registry.Text(),
             Catch::Contains(R"(kernelcast_forecaster_pool_questions_total{result="pooled"} 1)"));
}

TEST_CASE("What is settled is not asked", "[forecaster][pool]") {
  Fixture fixture;
  const auto open = [&](const Forecast& cheap) { return fixture.pool.IsOpen(Input(), cheap); };
  CHECK(open(Of("embedded", 0.5, 0.5)));
  CHECK(open(Of("embedded", 0.8, 0.1)));
  // It loses: P(win) is a little less than P(bin 5), for a win is by a margin.
  CHECK_FALSE(open(Of("embedded", 0.5, 0.03)));
  // It fails.
  CHECK_FALSE(open(Of("embedded", 0.5, 0.5, 0.97)));
  // It wins.
  CHECK_FALSE(open(Of("embedded", 0.0, 0.99)));
  // It is in one bin.
  CHECK_FALSE(open(Of("embedded", 0.91, 0.09)));

  fixture.cheap.result = Of("embedded", 0.5, 0.0);
  const Forecast forecast = fixture.AskForecast();
  CHECK(fixture.costly.asked == 0);
  CHECK(forecast.backend == "pool");
  REQUIRE(forecast.components.size() == 1);
  CHECK(forecast.components[0].weight == 1);
  CHECK(ValidateForecast(forecast).ok());
}

TEST_CASE("The incumbent is the best label", "[forecaster][pool]") {
  Fixture fixture;
  const Forecast even = Of("embedded", 0.5, 0.5);
  CHECK(fixture.pool.IsOpen(Input(), even));
  Label label = Planted().MakeLabel(3);
  label.truth = Ratio{1.9, 1.8, 2.0, 0.95};
  fixture.pool.Observe({Observed(label)});
  // Nothing in bin 5 beats 1.9.
  CHECK_FALSE(fixture.pool.IsOpen(Input(), even));
  // Relative to a baseline that is itself 1.9 times as fast it is open again.
  ForecastInput input = Input();
  input.baseline_speedup = 1.9;
  CHECK(fixture.pool.IsOpen(input, even));
}

TEST_CASE("Where the model fails or declines the cheap forecast stands", "[forecaster][pool]") {
  Fixture fixture;
  for (const Cause cause : {Cause::kModelDeferred, Cause::kUnparsable, Cause::kEndpointUnavailable,
                            Cause::kBudget, Cause::kNotCovered}) {
    fixture.costly.result = Abstention{cause, "llm", "because"};
    const Forecast forecast = fixture.AskForecast();
    CHECK(forecast.bin_probabilities == std::vector<double>{0, 0, 0, 0.5, 0.5, 0, 0, 0});
    CHECK(forecast.components.size() == 1);
    CHECK(forecast.rationale == (cause == Cause::kModelDeferred
                                     ? "The model declined: because"
                                     : "No answer of the model: because"));
  }
  const std::string text = fixture.registry.Text();
  CHECK_THAT(text, Catch::Contains(
                       R"(kernelcast_forecaster_pool_questions_total{result="unanswered"} 4)"));
  CHECK_THAT(text,
             Catch::Contains(R"(kernelcast_forecaster_pool_questions_total{result="declined"} 1)"));
}

TEST_CASE("Where the cheap one abstains the model is asked", "[forecaster][pool]") {
  Fixture fixture;
  fixture.cheap.result = Abstention{Cause::kNotCovered, "embedded", "no"};
  CHECK(fixture.AskForecast().backend == "llm:m");
  fixture.costly.result = Abstention{Cause::kUnparsable, "llm", "no"};
  CHECK(std::get<Abstention>(fixture.Ask()).cause == Cause::kUnparsable);
}

TEST_CASE("The model is given less time than the caller has", "[forecaster][pool]") {
  Fixture fixture;
  constexpr int64_t kSecond = 1'000'000'000;
  fixture.Ask({fixture.clock.MonotonicNs() + 10 * kSecond, {}});
  CHECK(fixture.costly.last_call.deadline_ns == fixture.clock.MonotonicNs() + 9 * kSecond);
  CHECK(fixture.cheap.last_call.deadline_ns == fixture.clock.MonotonicNs() + 10 * kSecond);
  fixture.Ask();
  CHECK(fixture.costly.last_call.deadline_ns == std::numeric_limits<int64_t>::max());
}

TEST_CASE("Weights are learnt from what came of pooled forecasts, and again at start",
          "[forecaster][pool]") {
  Fixture fixture;
  Label label = Planted().MakeLabel(0);
  label.truth = Ratio{1.01, 1.0, 1.02, 0.95};  // in bin 5, and no incumbent to speak of
  label.forecast = fixture.AskForecast();
  fixture.pool.Observe({Observed(label)});
  // 0.5 to 0.9.
  CHECK(fixture.AskForecast().components[1].weight == Approx(0.9 / 1.4));
  CHECK_THAT(fixture.registry.Text(),
             Catch::Contains(R"(kernelcast_forecaster_pool_llm_weight{target="cpu"} 0.64)"));
  // A pool that begins with the labels on disk knows as much.
  Fixture again;
  ObservedLabel replayed = Observed(label);
  replayed.replayed = true;
  again.pool.Observe({replayed});
  CHECK(again.AskForecast().components[1].weight == Approx(0.9 / 1.4));
  // The two are told by others.
  CHECK(fixture.cheap.observed == 0);
  CHECK(fixture.costly.observed == 0);
}

TEST_CASE("The description is of both", "[forecaster][pool]") {
  const Fixture fixture;
  const BackendDescription description = fixture.pool.Describe();
  CHECK(description.name == "pool");
  CHECK(description.version == "pool/1+embedded/1+llm/1");
  CHECK(absl::IsUnimplemented(fixture.pool.ShowPrompt(Input()).status()));
}

}  // namespace
}  // namespace kernelcast::forecaster
