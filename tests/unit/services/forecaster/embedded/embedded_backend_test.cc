#include "services/forecaster/embedded/embedded_backend.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "common/domain/scoring.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

ForecastInput Input(const PlantedProblem& problem, size_t candidate) {
  ForecastInput input;
  input.problem = problem.context();
  input.candidate = problem.candidates()[candidate];
  input.facts = problem.Facts(candidate);
  input.reference_facts = problem.ReferenceFacts();
  return input;
}

// Feeds labels with increasing sequence numbers, like the service.
class Feeder {
 public:
  explicit Feeder(EmbeddedBackend& backend) : backend_(backend) {}

  void Observe(const PlantedProblem& problem, Label label, bool replayed = false,
               std::optional<StoredPrediction> prediction = std::nullopt) {
    std::vector<ObservedLabel> labels;
    labels.push_back(
        {problem.context(), ++sequence_, std::move(label), replayed, std::move(prediction)});
    backend_.Observe(std::move(labels));
  }
  void ObserveMany(const PlantedProblem& problem, const std::vector<size_t>& candidates,
                   double noise, uint64_t seed, bool at_once) {
    std::vector<ObservedLabel> labels;
    for (const size_t candidate : candidates) {
      labels.push_back({problem.context(), ++sequence_, problem.MakeLabel(candidate, noise, seed),
                        false, std::nullopt});
      if (at_once) continue;
      backend_.Observe(std::move(labels));
      labels.clear();
      // Each label is learnt before the next one arrives.
      backend_.WaitUntilTrained();
    }
    if (at_once) backend_.Observe(std::move(labels));
    backend_.WaitUntilTrained();
  }

 private:
  EmbeddedBackend& backend_;
  uint64_t sequence_ = 0;
};

std::vector<size_t> First(std::vector<size_t> order, size_t count) {
  order.resize(count);
  return order;
}

double Entropy(const std::vector<double>& p) {
  double entropy = 0;
  for (const double value : p) {
    if (value > 0) entropy -= value * std::log2(value);
  }
  return entropy;
}

EmbeddedOptions QuickOptions() {
  EmbeddedOptions options;
  options.model.members = 4;
  options.model.rounds = 20;
  return options;
}

void CheckForecast(const Forecast& forecast) {
  CHECK(ValidateForecast(forecast).ok());
  CHECK(forecast.failure_probability > 0);
  CHECK(forecast.failure_probability < 1);
  CHECK(forecast.stddev_log2_speedup > 0);
  CHECK(std::isfinite(forecast.expected_log2_speedup));
  CHECK(forecast.predicted_bin == ArgmaxBin(forecast.bin_probabilities));
}

TEST_CASE("Forecasts are wide before any label and say so", "[forecaster][embedded]") {
  const PlantedProblem problem;
  const EmbeddedBackend backend(QuickOptions());
  const Forecast forecast = backend.ForecastNow(Input(problem, 5));
  CheckForecast(forecast);
  CHECK(Entropy(forecast.bin_probabilities) > 2.6);  // of 3 bits
  CHECK(forecast.labels_seen == 0);
  CHECK(forecast.backend == "embedded");
  CHECK(forecast.backend_version == EmbeddedBackend::kVersion);
  CHECK(forecast.calibrator_version == "none");
  CHECK(forecast.expected_log2_speedup == 0);
  CHECK(forecast.basis == ForecastBasis::kPriorOnly);
}

TEST_CASE("Recorded candidates are forecast by their estimates before any label",
          "[forecaster][embedded][recorded]") {
  const PlantedProblem problem;
  const EmbeddedBackend backend(QuickOptions());
  ForecastInput input = Input(problem, 5);
  input.reference_facts = RecordedFacts({2000, 2000});
  const auto forecast = [&](const CompileFacts& facts) {
    input.facts = facts;
    const Forecast made = backend.ForecastNow(input);
    CheckForecast(made);
    return made;
  };
  CHECK(forecast(RecordedFacts({4000})).expected_log2_speedup == Approx(0).margin(1e-6));
  CHECK(forecast(RecordedFacts({4000, 4000})).expected_log2_speedup == Approx(-0.9));
  const Forecast fast = forecast(RecordedFacts({1000}));
  CHECK(fast.basis == ForecastBasis::kRecording);
  CHECK(fast.expected_log2_speedup == Approx(1.8));
  CompileFacts not_covered = RecordedFacts({1000});
  not_covered.simulations[0].launches = {{"the candidate", {}, "reads values of a tensor (item)"}};
  const Forecast unknown = forecast(not_covered);
  CHECK(unknown.basis == ForecastBasis::kPriorOnly);
  CHECK(unknown.expected_log2_speedup == 0);
  CHECK(unknown.stddev_log2_speedup == Approx(StandardDeviation(kPrior)));
  CHECK(fast.stddev_log2_speedup < unknown.stddev_log2_speedup);
}

TEST_CASE("Forecasts are always simplexes", "[forecaster][embedded][property]") {
  const PlantedProblem problem;
  EmbeddedBackend backend(QuickOptions());
  Feeder feeder(backend);
  const std::vector<size_t> order = problem.Shuffled(1);
  for (size_t labels = 0; labels < 12; ++labels) {
    for (size_t candidate = 0; candidate < problem.size(); candidate += 7) {
      ForecastInput input = Input(problem, candidate);
      if (candidate % 2 == 0) input.bin_scheme = *BinScheme::Find("paper-floor/1");
      if (candidate % 3 == 0) input.facts = {};
      if (candidate % 5 == 0) input.reference_facts = {};
      if (candidate % 4 == 0) input.baseline_speedup = 37.5;
      CheckForecast(backend.ForecastNow(input));
    }
    feeder.Observe(problem, labels % 4 == 3
                                ? problem.MakeFailure(order[labels], FailureKind::kWrongResult)
                                : problem.MakeLabel(order[labels], 20.0, labels));
    backend.WaitUntilTrained();
  }
}

// A problem on two devices that rank kernels almost in reverse.
struct TwoDevices {
  explicit TwoDevices(double likeness) : likeness_(likeness) {}

  double Truth(size_t candidate, bool second) const {
    const double first = problem.Log2Speedup(candidate);
    return second ? likeness_ * first + 0.7 : first;
  }
  void Observe(Feeder& feeder, const std::vector<size_t>& candidates, bool second) const {
    for (const size_t candidate : candidates) {
      Label label = problem.MakeLabel(candidate);
      label.label_id += second ? "/second" : "/first";
      label.device_model = second ? "Second" : "First";
      label.truth = Ratio{std::exp2(Truth(candidate, second)), 0, 0, 0.95};
      feeder.Observe(problem, std::move(label));
    }
  }
  // Rank correlation of the forecasts for a device over all candidates.
  double Rank(const EmbeddedBackend& backend, bool second) const {
    std::vector<double> predicted;
    std::vector<double> truth;
    for (size_t candidate = 0; candidate < problem.size(); ++candidate) {
      ForecastInput input = Input(problem, candidate);
      input.device_model = second ? "Second" : "First";
      const Forecast forecast = backend.ForecastNow(input);
      CHECK(forecast.device_model == input.device_model);
      predicted.push_back(forecast.expected_log2_speedup);
      truth.push_back(Truth(candidate, second));
    }
    return Spearman(predicted, truth);
  }

  const PlantedProblem problem;
  const double likeness_;
};

TEST_CASE("Labels of a device with other ranks do not degrade a device's own forecasts",
          "[forecaster][embedded][devices]") {
  const TwoDevices world(-1);
  const std::vector<size_t> order = world.problem.Shuffled(3);
  EmbeddedBackend alone(QuickOptions());
  Feeder alone_feeder(alone);
  world.Observe(alone_feeder, First(order, 16), true);
  alone.WaitUntilTrained();

  EmbeddedBackend both(QuickOptions());
  Feeder both_feeder(both);
  world.Observe(both_feeder, First(order, 60), false);
  world.Observe(both_feeder, First(order, 16), true);
  both.WaitUntilTrained();
  CHECK(world.Rank(both, false) > 0.9);
  CHECK(world.Rank(both, true) > world.Rank(alone, true) - 0.05);

  const BackendDescription description = both.Describe();
  REQUIRE(description.labels.size() == 2);
  CHECK(description.labels[0].device_model == "First");
  CHECK(description.labels[0].labels == 60);
  CHECK(description.labels[1].device_model == "Second");
  CHECK(description.labels[1].labels == 16);
}

TEST_CASE("Labels of a similar device help one with few or none",
          "[forecaster][embedded][devices]") {
  const TwoDevices world(0.8);
  const std::vector<size_t> order = world.problem.Shuffled(4);
  EmbeddedBackend alone(QuickOptions());
  Feeder alone_feeder(alone);
  world.Observe(alone_feeder, First(order, 6), true);
  alone.WaitUntilTrained();

  EmbeddedBackend both(QuickOptions());
  Feeder both_feeder(both);
  world.Observe(both_feeder, First(order, 60), false);
  ForecastInput input = Input(world.problem, 5);
  input.device_model = "Second";
  CHECK(both.ForecastNow(input).labels_seen == 0);
  both.WaitUntilTrained();
  CHECK(world.Rank(both, true) > 0.8);
  world.Observe(both_feeder, First(order, 6), true);
  both.WaitUntilTrained();
  CHECK(both.ForecastNow(input).labels_seen == 6);
  CHECK(world.Rank(both, true) > world.Rank(alone, true) + 0.1);
}

TEST_CASE("A forecast from labels needs features of the candidate", "[forecaster][embedded]") {
  const PlantedProblem problem;
  EmbeddedBackend backend(QuickOptions());
  Feeder feeder(backend);
  feeder.ObserveMany(problem, First(problem.Shuffled(3), 20), 0.05, 1, true);
  const Forecast one = backend.ForecastNow(Input(problem, 5));
  CHECK(one.basis == ForecastBasis::kLabels);
  CHECK(one.labels_seen == 20);
  // Candidates with other features rest on other evidence, those with the same on the same.
  CHECK(backend.ForecastNow(Input(problem, 6)).evidence_id != one.evidence_id);
  ForecastInput copy = Input(problem, 5);
  copy.candidate.source += " // a comment";
  CHECK(backend.ForecastNow(copy).evidence_id == one.evidence_id);

  // Python candidates that were not recorded: labels shift the forecast, but of all of them alike.
  std::vector<Forecast> blind;
  for (const size_t i : {5, 6}) {
    ForecastInput python = Input(problem, i);
    python.candidate.kind = CandidateKind::kPython;
    python.candidate.tunables.clear();
    python.candidate.flags.clear();
    python.facts = RecordedFacts({1000});
    python.facts.simulations.clear();
    python.reference_facts = python.facts;
    blind.push_back(backend.ForecastNow(python));
    CHECK(blind.back().basis == ForecastBasis::kPriorOnly);
    CHECK(blind.back().labels_seen == 20);
  }
  CHECK(blind[0].evidence_id == blind[1].evidence_id);
  CHECK(blind[0].expected_log2_speedup == blind[1].expected_log2_speedup);
}

TEST_CASE("Forecasts follow the labels", "[forecaster][embedded]") {
  const PlantedProblem problem;
  EmbeddedBackend backend({});
  Feeder feeder(backend);
  const std::vector<size_t> order = problem.Shuffled(2);
  feeder.ObserveMany(problem, First(order, 40), 0.05, 1, true);
  std::vector<double> predicted;
  std::vector<double> truth;
  for (size_t i = 40; i < order.size(); ++i) {
    const Forecast forecast = backend.ForecastNow(Input(problem, order[i]));
    CHECK(forecast.labels_seen == 40);
    predicted.push_back(forecast.expected_log2_speedup);
    truth.push_back(problem.Log2Speedup(order[i]));
  }
  CHECK(Spearman(predicted, truth) > 0.9);
}

TEST_CASE("Calibrated intervals have their stated coverage, even on noise",
          "[forecaster][embedded]") {
  for (const double noise : {0.3, 3.0}) {
    double covered = 0;
    double count = 0;
    for (const uint64_t seed : {1, 2, 3}) {
      const PlantedProblem problem;
      EmbeddedBackend backend(QuickOptions());
      Feeder feeder(backend);
      const std::vector<size_t> order = problem.Shuffled(seed);
      feeder.ObserveMany(problem, First(order, 50), noise, seed, true);
      for (size_t i = 50; i < order.size(); ++i) {
        const Forecast forecast = backend.ForecastNow(Input(problem, order[i]));
        // Degrees of freedom are high by now, so a normal interval suffices.
        const double truth =
            std::log2(std::get<Ratio>(problem.MakeLabel(order[i], noise, seed).truth).value);
        if (std::abs(truth - forecast.expected_log2_speedup) <=
            1.2816 * forecast.stddev_log2_speedup) {
          ++covered;
        }
        ++count;
      }
    }
    CAPTURE(noise);
    CHECK(covered / count == Approx(0.8).margin(0.08));
  }
}

TEST_CASE("The same labels give the same forecasts in any arrival order",
          "[forecaster][embedded]") {
  const PlantedProblem one("one");
  const PlantedProblem two("two", 0.4);
  const auto forecasts = [&](bool at_once, uint64_t seed) {
    EmbeddedOptions options = QuickOptions();
    options.seed = seed;
    EmbeddedBackend backend(options);
    Feeder feeder(backend);
    feeder.ObserveMany(one, First(one.Shuffled(1), 14), 0.1, 1, at_once);
    feeder.ObserveMany(two, First(two.Shuffled(2), 11), 0.1, 1, at_once);
    std::vector<double> values;
    for (size_t i = 0; i < one.size(); i += 10) {
      for (const PlantedProblem* problem : {&one, &two}) {
        const Forecast forecast = backend.ForecastNow(Input(*problem, i));
        values.push_back(forecast.expected_log2_speedup);
        values.push_back(forecast.stddev_log2_speedup);
        values.push_back(forecast.failure_probability);
      }
    }
    return values;
  };
  const std::vector<double> at_once = forecasts(true, 1);
  CHECK(at_once == forecasts(false, 1));
  CHECK(at_once != forecasts(true, 2));
}

TEST_CASE("Cached predictions give the same forecasts as new ones", "[forecaster][embedded]") {
  const PlantedProblem problem;
  const std::vector<size_t> chosen = First(problem.Shuffled(3), 20);
  std::mutex mutex;
  std::map<std::string, StoredPrediction> kept;
  EmbeddedOptions options = QuickOptions();
  options.keep_predictions = [&](const std::vector<StoredPrediction>& predictions) {
    std::lock_guard lock(mutex);
    for (const StoredPrediction& prediction : predictions) kept[prediction.label_id] = prediction;
  };
  EmbeddedBackend first(options);
  Feeder feeder(first);
  feeder.ObserveMany(problem, chosen, 0.2, 1, false);
  CHECK(kept.size() == 19);  // the first label had no earlier forecast

  int made = 0;
  options.keep_predictions = [&](const std::vector<StoredPrediction>& predictions) {
    made += static_cast<int>(predictions.size());
  };
  EmbeddedBackend again(options);
  Feeder replay(again);
  for (const size_t candidate : chosen) {
    Label label = problem.MakeLabel(candidate, 0.2, 1);
    const auto found = kept.find(label.label_id);
    std::optional<StoredPrediction> prediction;
    if (found != kept.end()) prediction = found->second;
    replay.Observe(problem, std::move(label), true, prediction);
  }
  again.WaitUntilTrained();
  // Not requested yet.
  CHECK(again.ForecastNow(Input(problem, 0)).labels_seen == 0);
  again.WaitUntilTrained();
  CHECK(made == 0);
  for (size_t i = 0; i < problem.size(); i += 9) {
    const Forecast a = first.ForecastNow(Input(problem, i));
    const Forecast b = again.ForecastNow(Input(problem, i));
    CHECK(a.bin_probabilities == b.bin_probabilities);
    CHECK(a.calibrator_version == b.calibrator_version);
  }
}

TEST_CASE("Predictions of another version are recomputed", "[forecaster][embedded]") {
  const PlantedProblem problem;
  std::atomic<int> made = 0;
  EmbeddedOptions options = QuickOptions();
  options.keep_predictions = [&](const std::vector<StoredPrediction>& predictions) {
    made += static_cast<int>(predictions.size());
  };
  EmbeddedBackend backend(options);
  Feeder feeder(backend);
  for (size_t i = 0; i < 3; ++i) {
    Label label = problem.MakeLabel(i);
    const StoredPrediction stale = {label.label_id, "embedded/0", {9, 9, 9}};
    feeder.Observe(problem, std::move(label), true, stale);
  }
  backend.WaitUntilTrained();
  CHECK(made == 2);
}

TEST_CASE("Other problems help one without labels", "[forecaster][embedded]") {
  EmbeddedBackend backend(QuickOptions());
  Feeder feeder(backend);
  std::vector<PlantedProblem> problems;
  for (int i = 0; i < 4; ++i) problems.emplace_back("p" + std::to_string(i));
  for (const PlantedProblem& problem : problems) {
    feeder.ObserveMany(problem, First(problem.Shuffled(4), 30), 0.05, 1, true);
  }
  const PlantedProblem unseen("unseen");
  backend.Prepare(unseen.context());
  backend.WaitUntilTrained();
  std::vector<double> predicted;
  std::vector<double> truth;
  double width = 0;
  for (size_t i = 0; i < unseen.size(); ++i) {
    const Forecast forecast = backend.ForecastNow(Input(unseen, i));
    CHECK(forecast.labels_seen == 0);
    CHECK(forecast.basis == ForecastBasis::kFacts);
    predicted.push_back(forecast.expected_log2_speedup);
    truth.push_back(unseen.Log2Speedup(i));
    width += forecast.stddev_log2_speedup / static_cast<double>(unseen.size());
  }
  CHECK(Spearman(predicted, truth) > 0.5);
  CHECK(width < StandardDeviation(kPrior));
  CHECK(width > 0.5);
}

TEST_CASE("A forecast against a faster baseline is shifted by it", "[forecaster][embedded]") {
  const PlantedProblem problem;
  EmbeddedBackend backend(QuickOptions());
  Feeder feeder(backend);
  feeder.ObserveMany(problem, First(problem.Shuffled(1), 10), 0.1, 1, true);
  ForecastInput input = Input(problem, 3);
  const Forecast against_reference = backend.ForecastNow(input);
  input.baseline_candidate_id = "k_incumbent";
  input.baseline_speedup = 4;
  const Forecast against_incumbent = backend.ForecastNow(input);
  CHECK(against_incumbent.expected_log2_speedup ==
        Approx(against_reference.expected_log2_speedup - 2));
  CHECK(against_incumbent.stddev_log2_speedup == Approx(against_reference.stddev_log2_speedup));
  CHECK(against_incumbent.baseline_candidate_id == "k_incumbent");
}

TEST_CASE("Failures raise the probability of failure", "[forecaster][embedded]") {
  const PlantedProblem problem;
  EmbeddedBackend backend(QuickOptions());
  Feeder feeder(backend);
  const double before = backend.ForecastNow(Input(problem, 0)).failure_probability;
  for (size_t i = 1; i < 6; ++i) {
    feeder.Observe(problem, problem.MakeFailure(i, FailureKind::kWrongResult));
  }
  backend.WaitUntilTrained();
  CHECK(backend.ForecastNow(Input(problem, 0)).failure_probability > before + 0.3);
}

TEST_CASE("Labels are counted by problem and target", "[forecaster][embedded]") {
  const PlantedProblem one("one");
  const PlantedProblem two("two");
  EmbeddedBackend backend(QuickOptions());
  Feeder feeder(backend);
  feeder.ObserveMany(one, {1, 2, 3}, 0, 1, true);
  feeder.Observe(two, two.MakeFailure(1, FailureKind::kTimeout));
  const BackendDescription description = backend.Describe();
  CHECK(description.name == "embedded");
  CHECK(description.ready);
  REQUIRE(description.labels.size() == 2);
  for (const TargetLabels& labels : description.labels) {
    CHECK(labels.target == "cpu");
    if (labels.problem_id == one.context()->problem.problem_id) {
      CHECK(labels.labels == 3);
      CHECK(labels.failures == 0);
    } else {
      CHECK(labels.labels == 1);
      CHECK(labels.failures == 1);
    }
  }
}

TEST_CASE("Forecasting continues while models are trained", "[forecaster][embedded]") {
  const PlantedProblem problem;
  EmbeddedBackend backend(QuickOptions());
  Feeder feeder(backend);
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  std::atomic<int> bad = 0;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; !stop; i = (i + 1) % problem.size()) {
        if (!ValidateForecast(backend.ForecastNow(Input(problem, i))).ok()) ++bad;
      }
    });
  }
  feeder.ObserveMany(problem, First(problem.Shuffled(1), 12), 0.1, 1, false);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(bad == 0);
}

TEST_CASE("A steady flow of labels does not prevent training", "[forecaster][embedded]") {
  constexpr int kLabels = 60;
  const PlantedProblem problem;
  const EmbeddedBackend* trained = nullptr;
  Feeder* more = nullptr;
  std::atomic<int> labels = 2;
  std::atomic<uint64_t> most_seen = 0;
  EmbeddedOptions options = QuickOptions();
  // Runs on the trainer's thread, which therefore finds another label after each one.
  options.keep_predictions = [&](const std::vector<StoredPrediction>&) {
    most_seen = std::max<uint64_t>(most_seen, *trained->ForecastNow(Input(problem, 5)).labels_seen);
    if (labels == kLabels) return;
    more->Observe(problem, problem.MakeLabel(labels % problem.size(), 0.1, 1));
    ++labels;
  };
  EmbeddedBackend backend(options);
  Feeder feeder(backend);
  trained = &backend;
  more = &feeder;
  feeder.Observe(problem, problem.MakeLabel(0, 0.1, 1));
  feeder.Observe(problem, problem.MakeLabel(1, 0.1, 1));
  while (labels < kLabels) backend.WaitUntilTrained();
  backend.WaitUntilTrained();
  CHECK(most_seen > kLabels / 2);
}

TEST_CASE("Training yields the CPU when labels arrive fast or add little",
          "[forecaster][embedded]") {
  const auto pauses = EmbeddedBackend::PausesAfterTraining;
  CHECK(pauses(0, 0) == 0);
  CHECK(pauses(4, 63) == 0);
  CHECK(pauses(7, 10) == 3);
  CHECK(pauses(0, 64) == 1);
  CHECK(pauses(6, 64) == 2);
  CHECK(pauses(0, 300) == 4);
  CHECK(pauses(100, 10) == 16);
  CHECK(pauses(0, 1'000'000) == 16);
}

TEST_CASE("A backend with pending labels can be destroyed", "[forecaster][embedded]") {
  const PlantedProblem problem;
  EmbeddedBackend backend({});
  Feeder feeder(backend);
  for (size_t i = 0; i < 30; ++i) feeder.Observe(problem, problem.MakeLabel(i));
}

}  // namespace
}  // namespace kernelcast::forecaster
