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

FailureModel Train(const std::vector<TrainingRow>& rows) {
  std::vector<const TrainingRow*> pointers;
  for (const TrainingRow& row : rows) pointers.push_back(&row);
  return FailureModel::Train(pointers, 1);
}

TEST_CASE("Nothing seen gives the prior rate", "[forecaster][failure]") {
  CHECK(FailureModel().Predict(Row(0, 0, false).features) == Approx(FailureModel::kPriorRate));
}

TEST_CASE("Rates are those of the template, drawn to the problem's", "[forecaster][failure]") {
  std::vector<TrainingRow> rows;
  for (int i = 0; i < 4; ++i) rows.push_back(Row(0, 0, true));
  for (int i = 0; i < 16; ++i) rows.push_back(Row(1, 0, false));
  const FailureModel model = Train(rows);
  // Worked by hand: (4 + 0.15 * 4) / 24 for the problem, then two rows of that for the template.
  const double problem = 4.6 / 24;
  CHECK(model.Predict(Row(0, 0, false).features) == Approx((4 + 2 * problem) / 6));
  CHECK(model.Predict(Row(1, 0, false).features) == Approx(2 * problem / 18));
  CHECK(model.Predict(Row(7, 0, false).features) == Approx(problem));
}

TEST_CASE("With enough of both, trees find what makes candidates fail", "[forecaster][failure]") {
  std::vector<TrainingRow> rows;
  for (int i = 0; i < 60; ++i) {
    rows.push_back(Row(0, static_cast<float>(i % 6), i % 6 == 5));
  }
  const FailureModel model = Train(rows);
  CHECK(model.Predict(Row(0, 5, false).features) > 0.35);
  CHECK(model.Predict(Row(0, 2, false).features) < 0.1);
}

TEST_CASE("A candidate that has compiled is not held against compile errors",
          "[forecaster][failure]") {
  std::vector<TrainingRow> rows;
  for (int i = 0; i < 20; ++i) {
    rows.push_back(Row(0, 0, i < 10, false));
    rows.back().compile_error = i < 10;
  }
  const FailureModel model = Train(rows);
  CHECK(model.Predict(Row(0, 0, false, true).features) < 0.1);
  CHECK(model.Predict(Row(0, 0, false, false).features) > 0.3);
}

TEST_CASE("A probability of failure is never certain", "[forecaster][failure]") {
  std::vector<TrainingRow> rows;
  for (int i = 0; i < 500; ++i) rows.push_back(Row(0, 0, true));
  const double p = Train(rows).Predict(Row(0, 0, false).features);
  CHECK(p > 0.9);
  CHECK(p < 1);
}

}  // namespace
}  // namespace kernelcast::forecaster
