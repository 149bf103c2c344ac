#include "services/forecaster/embedded/failure_model.h"

#include <catch2/catch.hpp>
#include <vector>

namespace kernelcast::forecaster {
namespace {

TrainingRow Row(int template_index, float tunable, bool fails, bool with_facts = true) {
  TrainingRow row;
  row.features.template_index = template_index;
  row.features.tunables = {static_cast<float>(template_index), tunable};
  if (with_facts) row.features.facts = {1.0f};
  if (!fails) row.log2_speedup = 0.5;
  return row;
}

SpacePosition At(const CandidateFeatures& features) {
  return {features.template_index, {features.tunables[1] / 5}, features.facts};
}

FailureModel Train(const std::vector<TrainingRow>& rows) {
  std::vector<const TrainingRow*> pointers;
  std::vector<SpacePosition> positions;
  for (const TrainingRow& row : rows) {
    pointers.push_back(&row);
    positions.push_back(At(row.features));
  }
  return FailureModel::Train(pointers, positions, nullptr, 1);
}

double Predict(const FailureModel& model, const TrainingRow& row) {
  return model.Predict(row.features, At(row.features), nullptr);
}

TEST_CASE("Without observations the prior rate is returned", "[forecaster][failure]") {
  CHECK(Predict(FailureModel(), Row(0, 0, false)) == Approx(FailureModel::kPriorRate));
}

TEST_CASE("Failures count against the template, and most against similar candidates",
          "[forecaster][failure]") {
  const FailureModel once = Train({Row(0, 0, true)});
  const double same = Predict(once, Row(0, 0, false));
  const double far = Predict(once, Row(0, 5, false));
  const double elsewhere = Predict(once, Row(7, 5, false));
  CHECK(same > far);
  CHECK(far > elsewhere);
  CHECK(elsewhere > FailureModel::kPriorRate);
  // A template that failed once is not ruled out.
  CHECK(far < 0.6);
  CHECK(elsewhere < 0.3);

  const FailureModel again = Train({Row(0, 0, true), Row(0, 5, true)});
  CHECK(Predict(again, Row(0, 3, false)) > 0.65);

  const FailureModel mixed = Train({Row(0, 0, true), Row(0, 5, false)});
  CHECK(Predict(mixed, Row(0, 5, false)) < 0.2);
  CHECK(Predict(mixed, Row(0, 0, false)) > 0.5);
}

TEST_CASE("Only the newest of many outcomes are used", "[forecaster][failure]") {
  std::vector<TrainingRow> rows(FailureModel::kMaxPoints, Row(0, 0, true));
  rows.insert(rows.end(), FailureModel::kMaxPoints, Row(0, 0, false));
  CHECK(Predict(Train(rows), Row(0, 0, false)) < 0.5);
}

TEST_CASE("With enough successes and failures trees learn what makes candidates fail",
          "[forecaster][failure]") {
  std::vector<TrainingRow> rows;
  for (int i = 0; i < 60; ++i) {
    rows.push_back(Row(0, static_cast<float>(i % 6), i % 6 == 5));
  }
  const FailureModel model = Train(rows);
  CHECK(Predict(model, Row(0, 5, false)) > 0.35);
  CHECK(Predict(model, Row(0, 2, false)) < 0.1);
}

TEST_CASE("A candidate that has compiled is not charged with compile errors",
          "[forecaster][failure]") {
  std::vector<TrainingRow> rows;
  for (int i = 0; i < 20; ++i) {
    rows.push_back(Row(0, 0, i < 10, false));
    rows.back().compile_error = i < 10;
  }
  const FailureModel model = Train(rows);
  CHECK(Predict(model, Row(0, 0, false, true)) < 0.1);
  CHECK(Predict(model, Row(0, 0, false, false)) > 0.3);
}

TEST_CASE("A probability of failure is never certain", "[forecaster][failure]") {
  std::vector<TrainingRow> rows;
  for (int i = 0; i < 500; ++i) rows.push_back(Row(0, 0, true));
  const double p = Predict(Train(rows), Row(0, 0, false));
  CHECK(p > 0.9);
  CHECK(p < 1);
}

}  // namespace
}  // namespace kernelcast::forecaster
