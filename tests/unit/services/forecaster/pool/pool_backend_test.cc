#include "services/forecaster/pool/pool_backend.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster::pool_backend_test {
namespace {

using Catch::Matchers::StartsWith;
using Cause = Abstention::Cause;

// Immediately gives the forecast set by the test.
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

// The mass of bins 4 and 5, with the rest in bin 1.
Forecast Of(const std::string& backend, double p4, double p5, double failure = 0) {
  Forecast forecast;
  forecast.bin_probabilities = {std::max(0.0, 1 - p4 - p5), 0, 0, p4, p5, 0, 0, 0};
  forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  forecast.failure_probability = failure;
  forecast.stddev_log2_speedup = 0.5;
  forecast.backend = backend;
  forecast.backend_version = backend + "/1";
  forecast.labels_seen = backend == "embedded" ? 7 : 0;
  forecast.basis = backend == "embedded" ? ForecastBasis::kFacts : ForecastBasis::kModel;
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

TEST_CASE("An open question is sent to both components and pooled", "[forecaster][pool]") {
  Fixture fixture;
  const Forecast forecast = fixture.AskForecast();
  CHECK(forecast.bin_probabilities[3] == Approx(0.3));
  CHECK(forecast.bin_probabilities[4] == Approx(0.7));
  CHECK(ValidateForecast(forecast).ok());
  CHECK(forecast.backend == "pool");
  CHECK(forecast.backend_version == "pool/2+embedded/1+llm:m/1");
  CHECK(forecast.labels_seen == 7);
  CHECK(forecast.basis == ForecastBasis::kModel);
  REQUIRE(forecast.components.size() == 2);
  CHECK(forecast.components[0].backend == "embedded");
  CHECK(forecast.components[1].backend == "llm:m");
  CHECK(forecast.components[1].weight == 0.5);
  CHECK(forecast.components[1].bin_probabilities[4] == Approx(0.9));
  CHECK_THAT(fixture.registry.Text(),
             Catch::Contains(R"(kernelcast_forecaster_pool_questions_total{result="pooled"} 1)"));
}

TEST_CASE("A settled question is not sent to the model", "[forecaster][pool]") {
  Fixture fixture;
  const auto open = [&](const Forecast& cheap) { return fixture.pool.IsOpen(Input(), cheap); };
  CHECK(open(Of("embedded", 0.5, 0.5)));
  CHECK(open(Of("embedded", 0.8, 0.1)));
  // It loses: P(win) is slightly less than P(bin 5), because a win needs a margin.
  CHECK_FALSE(open(Of("embedded", 0.5, 0.03)));
  // It fails.
  CHECK_FALSE(open(Of("embedded", 0.5, 0.5, 0.97)));
  // It wins.
  CHECK_FALSE(open(Of("embedded", 0.0, 0.99)));
  // It is in one bin.
  CHECK_FALSE(open(Of("embedded", 0.91, 0.09)));
  // Nothing is known about the candidate, so the prior settles nothing.
  Forecast prior = Of("embedded", 0.91, 0.09);
  prior.basis = ForecastBasis::kPriorOnly;
  CHECK(open(prior));

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

TEST_CASE("The cheap forecast is used when the model fails or declines", "[forecaster][pool]") {
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

TEST_CASE("A pooled forecast reports the model's contribution", "[forecaster][pool]") {
  Fixture fixture;
  Abstention away{Cause::kEndpointUnavailable, "llm", "HTTP 503"};
  away.model = ModelAnswer{ModelOutcome::kUnanswered, "", "HTTP 503", {}};
  fixture.costly.result = away;
  Forecast forecast = fixture.AskForecast();
  REQUIRE(forecast.model.has_value());
  CHECK(forecast.model->outcome == ModelOutcome::kUnanswered);
  CHECK(forecast.model->detail == "HTTP 503");
  Forecast said = Of("llm:m", 0.1, 0.9);
  said.model = ModelAnswer{ModelOutcome::kUsed};
  said.anchor = ForecastAnchor{"k", 7};
  fixture.costly.result = said;
  forecast = fixture.AskForecast();
  CHECK(forecast.model->outcome == ModelOutcome::kUsed);
  CHECK(forecast.anchor->speedup == 7);
  fixture.cheap.result = Of("embedded", 0.5, 0.0);
  CHECK(fixture.AskForecast().model->outcome == ModelOutcome::kNotAsked);
}

TEST_CASE(
    "Beyond the last edge the model is queried even when the cheap forecast is sure of the bin",
    "[forecaster][pool]") {
  Fixture fixture;
  Forecast fast = Of("embedded", 0.0, 0.0);
  fast.bin_probabilities = {0, 0, 0, 0, 0, 0, 0, 1};
  fast.predicted_bin = 8;
  fast.expected_log2_speedup = 2.9;
  CHECK_FALSE(fixture.pool.IsOpen(Input(), fast));
  Label label = Planted().MakeLabel(3);
  label.truth = Ratio{7, 6.9, 7.1, 0.95};
  fixture.pool.Observe({Observed(label)});
  CHECK(fixture.pool.IsOpen(Input(), fast));
  // The incumbent of another device model is irrelevant.
  ForecastInput elsewhere = Input();
  elsewhere.device_model = "NVIDIA L40S";
  CHECK_FALSE(fixture.pool.IsOpen(elsewhere, fast));
}

TEST_CASE("The model is queried when the cheap forecaster abstains", "[forecaster][pool]") {
  Fixture fixture;
  fixture.cheap.result = Abstention{Cause::kNotCovered, "embedded", "no"};
  CHECK(fixture.AskForecast().backend == "llm:m");
  fixture.costly.result = Abstention{Cause::kUnparsable, "llm", "no"};
  CHECK(std::get<Abstention>(fixture.Ask()).cause == Cause::kUnparsable);
}

TEST_CASE("The model gets less time than the caller has", "[forecaster][pool]") {
  Fixture fixture;
  constexpr int64_t kSecond = 1'000'000'000;
  fixture.Ask({fixture.clock.MonotonicNs() + 10 * kSecond, {}});
  CHECK(fixture.costly.last_call.deadline_ns == fixture.clock.MonotonicNs() + 9 * kSecond);
  CHECK(fixture.cheap.last_call.deadline_ns == fixture.clock.MonotonicNs() + 10 * kSecond);
  fixture.Ask();
  CHECK(fixture.costly.last_call.deadline_ns == std::numeric_limits<int64_t>::max());
}

TEST_CASE("Weights are learnt from outcomes of pooled forecasts and restored at start",
          "[forecaster][pool]") {
  Fixture fixture;
  Label label = Planted().MakeLabel(0);
  label.truth = Ratio{1.01, 1.0, 1.02, 0.95};  // in bin 5, and a weak incumbent
  label.forecast = fixture.AskForecast();
  fixture.pool.Observe({Observed(label)});
  // 0.5 to 0.9.
  CHECK(fixture.AskForecast().components[1].weight == Approx(0.9 / 1.4));
  CHECK_THAT(
      fixture.registry.Text(),
      Catch::Contains(
          R"(kernelcast_forecaster_pool_llm_weight{gpu_model="unknown",target="cpu"} 0.64)"));
  // A pool that starts with the labels on disk has the same state.
  Fixture again;
  ObservedLabel replayed = Observed(label);
  replayed.replayed = true;
  again.pool.Observe({replayed});
  CHECK(again.AskForecast().components[1].weight == Approx(0.9 / 1.4));
  // The components receive labels elsewhere.
  CHECK(fixture.cheap.observed == 0);
  CHECK(fixture.costly.observed == 0);
}

// Two devices that rank two kernels in reverse: the model is right about one, the cheap backend
// about the other.
TEST_CASE("Device models with different ranks keep separate weights, also after a restart",
          "[forecaster][pool][devices]") {
  Fixture fixture;
  std::vector<ObservedLabel> stored;
  const auto ask = [](Fixture& of, const std::string& model, double cheap_p5, double costly_p5) {
    of.cheap.result = Of("embedded", 1 - cheap_p5, cheap_p5);
    of.costly.result = Of("llm:m", 1 - costly_p5, costly_p5);
    ForecastInput input = Input();
    input.device_model = model;
    std::optional<Forecast> forecast;
    of.pool.Forecast(std::move(input), {},
                     [&](ForecastResult got) { forecast = std::get<Forecast>(got); });
    REQUIRE(forecast.has_value());
    REQUIRE(forecast->components.size() == 2);
    return *forecast;
  };
  // On the A100 the first kernel is in bin 5 and the other in bin 4; on the L40S the reverse. The
  // model always predicts the A100's ranks, the cheap backend the L40S's.
  for (int i = 0; i < 10; ++i) {
    for (const std::string model : {"NVIDIA A100", "NVIDIA L40S"}) {
      const bool first = i % 2 == 0;
      const bool fast = first == (model == "NVIDIA A100");
      Label label = Planted().MakeLabel(first ? 0 : 1);
      label.label_id = model + std::to_string(i);
      label.device_model = model;
      label.truth = fast ? Ratio{1.01, 1.0, 1.02, 0.95} : Ratio{0.9, 0.89, 0.91, 0.95};
      label.forecast = ask(fixture, model, first ? 0.2 : 0.8, first ? 0.8 : 0.2);
      stored.push_back(Observed(label));
      fixture.pool.Observe({stored.back()});
    }
  }
  Fixture restarted;
  for (ObservedLabel& label : stored) label.replayed = true;
  restarted.pool.Observe(stored);
  for (Fixture* const of : {&fixture, &restarted}) {
    // With the same two opinions of the first kernel, each device trusts the one that is right
    // about it.
    const Forecast on_a = ask(*of, "NVIDIA A100", 0.2, 0.8);
    const Forecast on_b = ask(*of, "NVIDIA L40S", 0.2, 0.8);
    CHECK(on_a.components[1].weight == Approx(0.9));
    CHECK(on_b.components[1].weight == 0);
    CHECK(on_a.bin_probabilities[4] > 0.7);
    CHECK(on_b.bin_probabilities[4] < 0.3);
    CHECK(ask(*of, "NVIDIA H100", 0.2, 0.8).components[1].weight == 0.5);
  }
  const std::string text = restarted.registry.Text();
  for (const char* line : {R"(llm_weight{gpu_model="NVIDIA A100",target="cpu"} 0.9)",
                           R"(llm_weight{gpu_model="NVIDIA L40S",target="cpu"} 0)"}) {
    CHECK_THAT(text, Catch::Contains(line));
  }
}

// Answers when the test says so, and repeats the answer when asked again.
class SlowBackend final : public Backend {
 public:
  std::string_view name() const override { return "llm"; }
  void Forecast(ForecastInput input, const ForecastCall& call, Done done) override {
    if (call.again) {
      const auto answered = answers_.find(input.candidate.candidate_id);
      Abstention none{Cause::kNotCovered, "llm", "it is not asked again"};
      none.model = ModelAnswer{ModelOutcome::kNotAsked};
      return done(answered != answers_.end() ? answered->second : ForecastResult(none));
    }
    open.push_back({input.candidate.candidate_id, call, std::move(done)});
  }
  void Observe(std::vector<ObservedLabel>) override {}
  BackendDescription Describe() const override { return {}; }

  void Answer(size_t at, ForecastResult result) {
    answers_[open.at(at).candidate_id] = result;
    open.at(at).done(std::move(result));
  }

  struct Open {
    std::string candidate_id;
    ForecastCall call;
    Done done;
  };
  std::vector<Open> open;

 private:
  std::map<std::string, ForecastResult> answers_;
};

struct SlowFixture {
  // Waits for the pool's answer.
  Forecast Ask(const ForecastCall& call, size_t candidate = 0) {
    ForecastInput input = Input();
    input.candidate = Planted().candidates()[candidate];
    std::promise<ForecastResult> promise;
    std::future<ForecastResult> result = promise.get_future();
    pool().Forecast(std::move(input), call,
                    [&promise](ForecastResult got) { promise.set_value(std::move(got)); });
    REQUIRE(result.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
    return std::get<Forecast>(result.get());
  }
  PoolBackend& pool() {
    if (!made) made.emplace(options, &cheap, &costly, &metrics, clock);
    return *made;
  }
  static ForecastCall Impatient() {
    ForecastCall call;
    call.search_id = "s";
    call.impatient = true;
    return call;
  }
  static ForecastCall Again() {
    ForecastCall call;
    call.search_id = "s";
    call.again = true;
    return call;
  }
  static Forecast Said(const TokenUsage& usage) {
    Forecast forecast = Of("llm:m", 0.1, 0.9);
    forecast.model = ModelAnswer{ModelOutcome::kUsed, "", "", usage, {}};
    return forecast;
  }

  PoolOptions options;
  FakeClock clock;
  MetricsRegistry registry;
  PoolMetrics metrics{registry};
  FixedBackend cheap{"embedded", Of("embedded", 0.5, 0.5)};
  SlowBackend costly;
  std::optional<PoolBackend> made;
};

TEST_CASE("A search does not wait for a slow model, and uses its answer when it comes",
          "[forecaster][pool]") {
  SlowFixture fixture;
  const Forecast first = fixture.Ask(SlowFixture::Impatient());
  REQUIRE(first.components.size() == 1);
  CHECK(first.model->outcome == ModelOutcome::kLate);
  REQUIRE(fixture.costly.open.size() == 1);
  CHECK_FALSE(fixture.costly.open[0].call.cancelled.stop_requested());
  // Not asked twice.
  CHECK(fixture.Ask(SlowFixture::Again()).components.size() == 1);
  CHECK(fixture.costly.open.size() == 1);
  fixture.costly.Answer(0, SlowFixture::Said({100, 0, 10, 0}));
  CHECK(fixture.Ask(SlowFixture::Again()).components.size() == 2);
  // Its tokens are charged to the search's next forecast, once.
  Forecast next = fixture.Ask(SlowFixture::Impatient(), 1);
  CHECK(next.model->token_usage == TokenUsage{100, 0, 10, 0});
  next = fixture.Ask(SlowFixture::Impatient(), 2);
  CHECK(next.model->token_usage == TokenUsage());
  CHECK_THAT(fixture.registry.Text(),
             Catch::Contains(R"(kernelcast_forecaster_pool_questions_total{result="late"} 3)"));
}

TEST_CASE("A patient caller waits for a slow model", "[forecaster][pool]") {
  SlowFixture fixture;
  std::optional<ForecastResult> result;
  fixture.pool().Forecast(Input(), {}, [&](ForecastResult got) { result = std::move(got); });
  CHECK_FALSE(result.has_value());
  fixture.costly.Answer(0, SlowFixture::Said({}));
  REQUIRE(result.has_value());
  CHECK(std::get<Forecast>(*result).components.size() == 2);
}

TEST_CASE("An impatient caller that leaves ends the question", "[forecaster][pool]") {
  SlowFixture fixture;
  fixture.options.value.first_interval_ns = int64_t{86'400} * 1'000'000'000;
  std::stop_source leaving;
  ForecastCall call = SlowFixture::Impatient();
  call.cancelled = leaving.get_token();
  fixture.pool().Forecast(Input(), call, [](ForecastResult) {});
  REQUIRE(fixture.costly.open.size() == 1);
  leaving.request_stop();
  CHECK(fixture.costly.open[0].call.cancelled.stop_requested());
}

TEST_CASE("Few questions wait for a model that has not answered", "[forecaster][pool]") {
  SlowFixture fixture;
  size_t not_asked = 0;
  for (size_t i = 0; i < 10; ++i) {
    const Forecast forecast = fixture.Ask(SlowFixture::Impatient(), i);
    not_asked += forecast.model->outcome == ModelOutcome::kNotWorthIt ? 1 : 0;
  }
  CHECK(fixture.costly.open.size() == 4);
  CHECK(not_asked == 6);
  // When there is room, the model is asked about a candidate that is forecast again.
  for (size_t i = 0; i < 4; ++i) fixture.costly.Answer(i, SlowFixture::Said({}));
  CHECK(fixture.Ask(SlowFixture::Again(), 8).components.size() == 1);
  REQUIRE(fixture.costly.open.size() == 5);
  CHECK_FALSE(fixture.costly.open[4].call.again);
}

TEST_CASE("An answer that came late is learnt from, also when the pool is gone",
          "[forecaster][pool]") {
  SlowFixture fixture;
  Label label = Planted().MakeLabel(0);
  label.truth = Ratio{1.01, 1.0, 1.02, 0.95};
  label.forecast = fixture.Ask(SlowFixture::Impatient());
  fixture.costly.Answer(0, SlowFixture::Said({}));
  fixture.pool().Observe({Observed(label)});
  CHECK(fixture.Ask(SlowFixture::Again()).components[1].weight == Approx(0.9 / 1.4));
  fixture.Ask(SlowFixture::Impatient(), 1);
  fixture.made.reset();
  fixture.costly.Answer(1, SlowFixture::Said({}));
}

TEST_CASE("The description covers both components", "[forecaster][pool]") {
  const Fixture fixture;
  const BackendDescription description = fixture.pool.Describe();
  CHECK(description.name == "pool");
  CHECK(description.version == "pool/2+embedded/1+llm/1");
  CHECK(absl::IsUnimplemented(fixture.pool.ShowPrompt(Input()).status()));
}

}  // namespace
}  // namespace kernelcast::forecaster::pool_backend_test
