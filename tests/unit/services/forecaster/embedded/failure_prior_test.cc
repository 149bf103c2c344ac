#include "services/forecaster/embedded/failure_prior.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "services/forecaster/embedded/failure_model.h"
#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

// Rows that fail where the first feature is large, or a random tenth.
std::vector<TrainingRow> Rows(bool lawful, uint64_t seed) {
  std::vector<TrainingRow> rows;
  Random random(seed);
  for (int i = 0; i < 60; ++i) {
    TrainingRow& row = rows.emplace_back();
    const double x = random.Uniform();
    for (int c = 0; c < 6; ++c) {
      row.features.failure.push_back(static_cast<float>(c == 0 ? x : random.Uniform()));
    }
    const bool fails = lawful ? x > 0.85 : random.Uniform() < 0.1;
    if (!fails) row.log2_speedup = 0.5;
  }
  return rows;
}

absl::StatusOr<FailurePrior> TrainedPrior(bool lawful, int families = 6) {
  std::vector<std::vector<TrainingRow>> problems;
  for (int p = 0; p < families; ++p) problems.push_back(Rows(lawful, static_cast<uint64_t>(p)));
  std::map<std::string, ProblemRows> rows;
  for (int p = 0; p < families; ++p) {
    ProblemRows& of = rows["p" + std::to_string(p)];
    for (const TrainingRow& row : problems[static_cast<size_t>(p)]) of.rows.push_back(&row);
  }
  return FailurePrior::Train(rows, 1);
}

CandidateFeatures Features(float x) {
  CandidateFeatures features;
  features.failure = {x, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
  features.facts = {1.0f};
  return features;
}

TEST_CASE("Failure patterns of all families transfer to a new one", "[forecaster][failure]") {
  const absl::StatusOr<FailurePrior> prior = TrainedPrior(true);
  REQUIRE(prior.ok());
  CHECK(prior->of_device_code());
  CHECK(prior->slope() > 0.5);
  CHECK(prior->Predict(Features(0.95f)) > 0.5);
  CHECK(prior->Predict(Features(0.2f)) < 0.1);
}

TEST_CASE("Failures without a pattern keep their base rate", "[forecaster][failure]") {
  const absl::StatusOr<FailurePrior> prior = TrainedPrior(false);
  REQUIRE(prior.ok());
  CHECK(prior->Predict(Features(0.95f)) == Approx(0.1).margin(0.08));
  CHECK(prior->Predict(Features(0.2f)) == Approx(0.1).margin(0.08));
}

TEST_CASE("Failures of few families have no influence", "[forecaster][failure]") {
  CHECK(absl::IsNotFound(TrainedPrior(true, 2).status()));
}

TEST_CASE("Labels override what other problems suggest about failures", "[forecaster][failure]") {
  const absl::StatusOr<FailurePrior> prior = TrainedPrior(true);
  REQUIRE(prior.ok());
  const SpacePosition at = {0, {0.5f}, {}};
  const CandidateFeatures suspect = Features(0.95f);
  const FailureModel nothing;
  CHECK(nothing.Predict(suspect, at, &*prior) == Approx(prior->Predict(suspect)));
  CHECK(nothing.Predict(suspect, at, nullptr) == Approx(FailureModel::kPriorRate));

  // Three of its template were correct, although they looked like failures too.
  std::vector<TrainingRow> rows(3);
  std::vector<const TrainingRow*> pointers;
  for (TrainingRow& row : rows) {
    row.features = suspect;
    row.log2_speedup = 0.1;
    pointers.push_back(&row);
  }
  const std::vector<SpacePosition> positions(3, at);
  const FailureModel learnt = FailureModel::Train(pointers, positions, &*prior, 1);
  CHECK(learnt.Predict(suspect, at, &*prior) < 0.5 * prior->Predict(suspect));
}

TEST_CASE("A fault or unwritten outputs that the virtual GPU found make a failure likely",
          "[forecaster][failure]") {
  CandidateFeatures features = Features(0.2f);
  const SpacePosition at = {0, {0.5f}, {}};
  CHECK(FailureModel().Predict(features, at, nullptr) < 0.2);
  features.has_findings = true;
  CHECK(FailureModel().Predict(features, at, nullptr) > FailureModel::kFindingRate);
  features.has_findings = false;
  features.has_wrong_outputs = true;
  CHECK(FailureModel().Predict(features, at, nullptr) == Approx(FailureModel::kWrongOutputRate));
}

TEST_CASE("Outputs that agree in simulation make a failure unlikely", "[forecaster][failure]") {
  CandidateFeatures features = Features(0.2f);
  features.has_agreed_outputs = true;
  const double odds = FailureModel::kPriorRate / (1 - FailureModel::kPriorRate);
  const double p = FailureModel().Predict(features, {0, {0.5f}, {}}, nullptr);
  CHECK(p / (1 - p) == Approx(FailureModel::kMissedShare * odds));
}

}  // namespace
}  // namespace kernelcast::forecaster
