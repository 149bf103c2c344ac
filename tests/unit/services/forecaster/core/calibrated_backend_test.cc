#include "services/forecaster/core/calibrated_backend.h"

#include <catch2/catch.hpp>
#include <memory>

#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

// Always gives the same forecast, and counts its calls.
class FakeBackend final : public Backend {
 public:
  std::string_view name() const override { return "llm"; }
  void Forecast(ForecastInput, const ForecastCall&, Done done) override {
    if (abstains) return done(Abstention{Abstention::Cause::kUnparsable, "llm:m", "no"});
    kernelcast::Forecast forecast;
    forecast.backend = "llm:m";
    forecast.calibrator_version = "none";
    forecast.bin_probabilities = {0.02, 0.02, 0.02, 0.02, 0.86, 0.02, 0.02, 0.02};
    done(forecast);
  }
  void Prepare(const std::shared_ptr<const ProblemContext>&) override { ++prepared; }
  void Observe(std::vector<ObservedLabel> labels) override { observed += labels.size(); }
  BackendDescription Describe() const override {
    BackendDescription description;
    description.version = "v";
    return description;
  }

  bool abstains = false;
  int prepared = 0;
  size_t observed = 0;
};

ForecastResult Ask(Backend& backend, const std::shared_ptr<const ProblemContext>& problem,
                   const std::string& device_model = "A100") {
  ForecastInput input;
  input.problem = problem;
  input.device_model = device_model;
  input.candidate.target = "cpu";
  ForecastResult answer;
  backend.Forecast(std::move(input), {}, [&](ForecastResult result) { answer = result; });
  return answer;
}

ObservedLabel Observed(const std::shared_ptr<const ProblemContext>& problem,
                       std::optional<Forecast> forecast, double speedup) {
  ObservedLabel observed;
  observed.problem = problem;
  observed.label.candidate.target = "cpu";
  observed.label.device_model = "A100";
  observed.label.truth = Ratio{speedup, speedup, speedup, 0.95};
  observed.label.forecast = std::move(forecast);
  return observed;
}

TEST_CASE("An overconfident backend is calibrated by its own labels only", "[calibration]") {
  const PlantedProblem planted;
  const std::shared_ptr<const ProblemContext>& problem = planted.context();
  FakeBackend inner;
  CalibratedBackend backend(&inner);
  CHECK(backend.name() == "llm");
  CHECK(backend.Describe().version == "v");
  backend.Prepare(problem);
  CHECK(inner.prepared == 1);
  // Half of the candidates forecast in bin 5 are in bin 4.
  for (int i = 0; i < 200; ++i) {
    auto forecast = std::get<Forecast>(Ask(backend, problem));
    backend.Observe({Observed(problem, forecast, i % 2 == 0 ? 1.2 : 0.8)});
    forecast.backend = "embedded";
    backend.Observe({Observed(problem, forecast, 8)});
    forecast.backend = "llm:m";
    forecast.baseline_candidate_id = "k_other";
    backend.Observe({Observed(problem, forecast, 8), Observed(problem, std::nullopt, 8)});
  }
  CHECK(inner.observed == 800);
  CHECK(backend.records() == 200);
  CHECK(backend.alarms() == 0);
  const auto forecast = std::get<Forecast>(Ask(backend, problem));
  CHECK_THAT(forecast.calibrator_version, Catch::StartsWith("vector/1;"));
  CHECK(forecast.bin_probabilities[4] == Approx(0.5).margin(0.05));
  CHECK(forecast.bin_probabilities[3] == Approx(0.45).margin(0.08));
  inner.abstains = true;
  CHECK(std::holds_alternative<Abstention>(Ask(backend, problem)));
}

TEST_CASE("Drifting forecasts raise one alarm, and none on replay", "[calibration]") {
  const PlantedProblem planted;
  const std::shared_ptr<const ProblemContext>& problem = planted.context();
  const bool replayed = GENERATE(false, true);
  FakeBackend inner;
  int calls = 0;
  CalibratedBackend backend(&inner, [&calls] { ++calls; });
  const auto label = [&](double speedup) {
    ObservedLabel observed = Observed(problem, std::get<Forecast>(Ask(backend, problem)), speedup);
    observed.replayed = replayed;
    backend.Observe({std::move(observed)});
  };
  for (int i = 0; i < 300; ++i) label(i % 2 == 0 ? 1.2 : 0.8);
  CHECK(backend.alarms() == 0);
  for (int i = 0; i < 100; ++i) label(0.01);
  CHECK(backend.alarms() == 1);
  CHECK(calls == (replayed ? 0 : 1));
}

TEST_CASE("Each device model has its own map, also after a restart", "[calibration][devices]") {
  const PlantedProblem planted;
  const std::shared_ptr<const ProblemContext>& problem = planted.context();
  FakeBackend inner;
  CalibratedBackend backend(&inner);
  std::vector<ObservedLabel> stored;
  // Candidates forecast in bin 5 are there on one device, and half of them are in bin 4 on another.
  for (int i = 0; i < 200; ++i) {
    for (const std::string model : {"A100", "L40S"}) {
      const double speedup = model == "L40S" && i % 2 == 0 ? 0.8 : 1.2;
      stored.push_back(
          Observed(problem, std::get<Forecast>(Ask(backend, problem, model)), speedup));
      stored.back().label.device_model = model;
      backend.Observe({stored.back()});
    }
  }
  CalibratedBackend restarted(&inner);
  for (ObservedLabel& label : stored) label.replayed = true;
  restarted.Observe(stored);
  for (Backend* const of : {static_cast<Backend*>(&backend), static_cast<Backend*>(&restarted)}) {
    const auto probability = [&](const std::string& model) {
      return std::get<Forecast>(Ask(*of, problem, model)).bin_probabilities[4];
    };
    CHECK(probability("A100") > 0.9);
    CHECK(probability("L40S") == Approx(0.5).margin(0.08));
    // Nothing is known of a third device.
    CHECK(probability("H100") == Approx(0.86));
  }
}

TEST_CASE("A backend learns from pool forecasts that it contributed to", "[calibration]") {
  const PlantedProblem planted;
  const std::shared_ptr<const ProblemContext>& problem = planted.context();
  FakeBackend inner;
  CalibratedBackend backend(&inner);
  for (int i = 0; i < 100; ++i) {
    Forecast pooled;
    pooled.backend = "pool";
    pooled.calibrator_version = "scale/1;records=3;multiplier=1.000";
    pooled.bin_probabilities.assign(8, 0.125);
    pooled.components.push_back(
        {"llm:m", "v", 0.5, {0.02, 0.02, 0.02, 0.02, 0.86, 0.02, 0.02, 0.02}, 0});
    backend.Observe({Observed(problem, pooled, i % 2 == 0 ? 1.2 : 0.8)});
  }
  CHECK(backend.records() == 100);
  CHECK(std::get<Forecast>(Ask(backend, problem)).bin_probabilities[4] == Approx(0.5).margin(0.07));
}

}  // namespace
}  // namespace kernelcast::forecaster
