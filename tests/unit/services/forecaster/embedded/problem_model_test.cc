#include "services/forecaster/embedded/problem_model.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/domain/scoring.h"
#include "common/domain/student_t.h"
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

}  // namespace
}  // namespace kernelcast::forecaster
