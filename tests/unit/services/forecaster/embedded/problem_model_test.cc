#include "services/forecaster/embedded/problem_model.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/domain/scoring.h"
#include "common/domain/student_t.h"
#include "services/forecaster/core/simulation_features.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

// A training set drawn from a planted problem, and the remaining points.
struct Sample {
  const PlantedProblem& problem;
  std::vector<TrainingRow> rows;
  std::vector<size_t> rest;

  ProblemModel Train(uint64_t seed = 1) const {
    std::vector<const TrainingRow*> pointers;
    for (const TrainingRow& row : rows) pointers.push_back(&row);
    ProblemModelOptions options;
    options.seed = seed;
    return ProblemModel::Train(problem.context()->EncoderFor("cpu"), pointers, nullptr, options);
  }
  StudentT Predict(const ProblemModel& model, size_t candidate) const {
    return model
        .Predict(
            problem.context()->EncoderFor("cpu"),
            MakeFeatures(*problem.context(), problem.candidates()[candidate],
                         problem.Facts(candidate), problem.ReferenceFacts(), kUnknownDeviceModel))
        .log2_speedup;
  }
};

double NoisyTruth(const PlantedProblem& problem, size_t candidate, double noise, uint64_t seed) {
  return std::log2(std::get<Ratio>(problem.MakeLabel(candidate, noise, seed).truth).value);
}

Sample Draw(const PlantedProblem& problem, size_t labels, double noise, uint64_t seed) {
  Sample sample{problem, {}, {}};
  const std::vector<size_t> order = problem.Shuffled(seed);
  for (size_t i = 0; i < order.size(); ++i) {
    if (i >= labels) {
      sample.rest.push_back(order[i]);
      continue;
    }
    TrainingRow& row = sample.rows.emplace_back();
    row.features =
        MakeFeatures(*problem.context(), problem.candidates()[order[i]], problem.Facts(order[i]),
                     problem.ReferenceFacts(), kUnknownDeviceModel);
    row.log2_speedup = NoisyTruth(problem, order[i], noise, seed);
  }
  return sample;
}

TEST_CASE("Forty labels of a planted function rank the rest", "[forecaster][problem_model]") {
  const PlantedProblem problem;
  for (const uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    const Sample sample = Draw(problem, 40, 0.05, seed);
    const ProblemModel model = sample.Train();
    std::vector<double> predicted;
    std::vector<double> truth;
    for (const size_t candidate : sample.rest) {
      predicted.push_back(sample.Predict(model, candidate).location);
      truth.push_back(problem.Log2Speedup(candidate));
    }
    CHECK(Spearman(predicted, truth) > 0.9);
  }
}

// Share of truths within the central 80% over several draws.
double Coverage(size_t labels, double noise) {
  const PlantedProblem problem;
  double covered = 0;
  double count = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Sample sample = Draw(problem, labels, noise, seed);
    const ProblemModel model = sample.Train();
    for (const size_t candidate : sample.rest) {
      const StudentT prediction = sample.Predict(model, candidate);
      const double half_width =
          prediction.scale * StudentTQuantile(0.9, prediction.degrees_of_freedom);
      const double truth = NoisyTruth(problem, candidate, noise, seed);
      if (std::abs(truth - prediction.location) <= half_width) ++covered;
      ++count;
    }
  }
  return covered / count;
}

TEST_CASE("Intervals cover the truth before any calibration", "[forecaster][problem_model]") {
  // Before calibration, intervals may be too wide with few labels, but not too narrow.
  CHECK(Coverage(20, 0.3) > 0.74);
  CHECK(Coverage(40, 0.3) == Approx(0.8).margin(0.12));
}

TEST_CASE("Pure noise labels give wide forecasts", "[forecaster][problem_model]") {
  CHECK(Coverage(40, 3.0) == Approx(0.8).margin(0.08));
  const PlantedProblem problem;
  const Sample sample = Draw(problem, 40, 3.0, 1);
  const ProblemModel model = sample.Train();
  CHECK(sample.Predict(model, sample.rest[0]).scale > 1.8);
}

TEST_CASE("More labels make narrower forecasts", "[forecaster][problem_model]") {
  const PlantedProblem problem;
  double last = 2;
  for (const size_t labels : {0, 20, 60}) {
    const Sample sample = Draw(problem, labels, 0.05, 3);
    const ProblemModel model = sample.Train();
    CHECK(model.labels() == labels);
    double scale = 0;
    for (const size_t candidate : sample.rest) {
      scale += sample.Predict(model, candidate).scale / static_cast<double>(sample.rest.size());
    }
    CHECK(scale < last);
    last = scale;
  }
}

TEST_CASE("A model without labels predicts the prior", "[forecaster][problem_model]") {
  const PlantedProblem problem;
  const Sample sample = Draw(problem, 0, 0, 1);
  for (const ProblemModel& model : {ProblemModel(), sample.Train()}) {
    const StudentT prediction = sample.Predict(model, 0);
    CHECK(prediction.location == 0);
    CHECK(prediction.scale == Approx(kPrior.scale));
    CHECK(prediction.degrees_of_freedom == Approx(kPrior.degrees_of_freedom));
  }
}

TEST_CASE("Labels with only failures leave the speedup unknown", "[forecaster][problem_model]") {
  const PlantedProblem problem;
  Sample sample = Draw(problem, 12, 0, 1);
  for (TrainingRow& row : sample.rows) row.log2_speedup.reset();
  const ProblemModel model = sample.Train();
  CHECK(sample.Predict(model, 3).scale == Approx(kPrior.scale));
  CHECK(model.labels() == 12);
}

TEST_CASE("Training depends only on labels, order and seed", "[forecaster][problem_model]") {
  const PlantedProblem problem;
  const Sample sample = Draw(problem, 25, 0.1, 7);
  const ProblemModel one = sample.Train(5);
  const ProblemModel two = sample.Train(5);
  for (const size_t candidate : sample.rest) {
    CHECK(sample.Predict(one, candidate).location == sample.Predict(two, candidate).location);
    CHECK(sample.Predict(one, candidate).scale == sample.Predict(two, candidate).scale);
  }
}

// A Python candidate whose estimated time is that of the reference / 2^claimed.
CandidateFeatures Recorded(double claimed) {
  CandidateFeatures features;
  features.is_recorded = true;
  features.simulation.assign(SimulationRowNames().size(), 0.0f);
  features.simulation[0] = static_cast<float>(claimed);
  const double seed = 1e6 + 1000 * claimed;
  for (size_t i = 0; i < SimulationFeatureNames().size(); ++i) {
    features.facts.push_back(static_cast<float>(NormalDraw(i + static_cast<uint64_t>(seed))));
  }
  return features;
}

// Learnt from device code whose speedups are as simulated, within 10%.
std::shared_ptr<const SharedModel> SimulationsOfDeviceCode() {
  static const std::shared_ptr<const SharedModel> kModel = [] {
    std::vector<std::vector<TrainingRow>> problems(4);
    for (size_t p = 0; p < problems.size(); ++p) {
      for (uint64_t i = 0; i < 30; ++i) {
        TrainingRow& row = problems[p].emplace_back();
        row.features = Recorded(NormalDraw(100 * p + i));
        row.features.is_recorded = false;
        row.features.shared = {0};
        row.log2_speedup = row.features.simulation[0] + 0.14 * NormalDraw(1000 + 100 * p + i);
      }
    }
    std::map<std::string, ProblemRows> rows;
    for (size_t p = 0; p < problems.size(); ++p) {
      for (const TrainingRow& row : problems[p]) {
        rows["p" + std::to_string(p)].rows.push_back(&row);
      }
    }
    return std::make_shared<const SharedModel>(SharedModel::Train(rows, 1).value());
  }();
  return kModel;
}

ProblemModel TrainOnRecorded(std::span<const TrainingRow> rows,
                             std::shared_ptr<const SharedModel> shared) {
  std::vector<const TrainingRow*> pointers;
  for (const TrainingRow& row : rows) pointers.push_back(&row);
  return ProblemModel::Train(TunableEncoder(), pointers, std::move(shared), {});
}

StudentT PredictRecorded(const ProblemModel& model, const CandidateFeatures& features) {
  return model.Predict(TunableEncoder(), features).log2_speedup;
}

TEST_CASE("Recorded candidates are forecast by their estimates, and wide",
          "[forecaster][problem_model][recorded]") {
  for (const auto& shared : {std::shared_ptr<const SharedModel>(), SimulationsOfDeviceCode()}) {
    const double slope = shared == nullptr ? 0.9 : shared->simulated_slope();
    CAPTURE(slope);
    const ProblemModel model = TrainOnRecorded({}, shared);
    const StudentT slower = PredictRecorded(model, Recorded(-1));
    const StudentT same = PredictRecorded(model, Recorded(0));
    const StudentT faster = PredictRecorded(model, Recorded(2));
    CHECK(slower.location == Approx(-slope));
    CHECK(same.location == Approx(0).margin(1e-9));
    CHECK(faster.location == Approx(2 * slope));
    CHECK(same.scale == Approx(0.75).epsilon(0.02));
    CHECK(faster.scale == Approx(std::hypot(0.75, 1)).epsilon(0.05));
    // A claim of 1000x: it may well be slower than the reference.
    const StudentT claims_much = PredictRecorded(model, Recorded(10));
    CHECK(StudentTUpperTail(claims_much.location / claims_much.scale,
                            claims_much.degrees_of_freedom) > 0.05);
    // Without a recording, nothing is known.
    const StudentT unknown = PredictRecorded(model, CandidateFeatures());
    CHECK(unknown.location == 0);
    CHECK(unknown.scale == Approx(kPrior.scale));
  }
  // Device code is forecast by the shared model, as narrow as its errors.
  CandidateFeatures device = Recorded(1);
  device.is_recorded = false;
  device.shared = {0};
  const ProblemModel model = TrainOnRecorded({}, SimulationsOfDeviceCode());
  CHECK(PredictRecorded(model, device).scale < 0.3);
}

TEST_CASE("Labels correct the estimates of recorded candidates",
          "[forecaster][problem_model][recorded]") {
  // All are an octave slower than estimated, because the reference's estimate is too long.
  std::vector<TrainingRow> rows;
  for (uint64_t i = 0; i < 8; ++i) {
    TrainingRow& row = rows.emplace_back();
    row.features = Recorded(NormalDraw(i));
    row.log2_speedup = row.features.simulation[0] - 1 + 0.1 * NormalDraw(50 + i);
  }
  for (const auto& shared : {std::shared_ptr<const SharedModel>(), SimulationsOfDeviceCode()}) {
    const ProblemModel model = TrainOnRecorded(rows, shared);
    const StudentT corrected = PredictRecorded(model, Recorded(1));
    CAPTURE(corrected.scale, shared != nullptr);
    CHECK(corrected.location == Approx(0).margin(0.25));
    CHECK(corrected.scale < 0.7);  // without labels: 0.9
  }
}

TEST_CASE("A label of a forged recording has little influence on other candidates",
          "[forecaster][problem_model][recorded]") {
  TrainingRow forged;
  forged.features = Recorded(8);
  forged.log2_speedup = 0;
  TrainingRow not_recorded;
  not_recorded.log2_speedup = 1.5;
  for (const auto& shared : {std::shared_ptr<const SharedModel>(), SimulationsOfDeviceCode()}) {
    CAPTURE(shared != nullptr);
    const StudentT before = PredictRecorded(TrainOnRecorded({}, shared), Recorded(1));
    for (const TrainingRow& row : {forged, not_recorded}) {
      const StudentT after = PredictRecorded(TrainOnRecorded({&row, 1}, shared), Recorded(1));
      CAPTURE(before.location, after.location, after.scale);
      CHECK(std::abs(after.location - before.location) < 0.5);
      CHECK(after.scale < 2 * before.scale);
    }
  }
}

TEST_CASE("Recorded candidates do not teach the model of device code",
          "[forecaster][problem_model][recorded]") {
  std::vector<TrainingRow> rows(40);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].features = Recorded(NormalDraw(i));
    rows[i].log2_speedup = 0;
  }
  ProblemRows of_problem;
  for (const TrainingRow& row : rows) of_problem.rows.push_back(&row);
  CHECK(absl::IsNotFound(SharedModel::Train({{"task", of_problem}}, 1).status()));
  CHECK_FALSE(SimulationsOfDeviceCode()->Covers(rows[0].features));
}

}  // namespace
}  // namespace kernelcast::forecaster
