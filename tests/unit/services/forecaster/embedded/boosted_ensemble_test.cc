#include "services/forecaster/embedded/boosted_ensemble.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "services/forecaster/embedded/random.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

struct EnsembleData {
  Matrix rows;
  std::vector<float> values;
};

EnsembleData MakeEnsembleData(size_t count, double noise, uint64_t seed) {
  EnsembleData data;
  Random random(seed);
  for (size_t i = 0; i < count; ++i) {
    std::vector<float> row(5);
    for (float& value : row) value = static_cast<float>(random.Uniform());
    data.values.push_back(static_cast<float>(3 * row[0] - 2 * (row[1] > 0.5f ? 1 : 0) +
                                             noise * NormalDraw(seed * 977 + i)));
    data.rows.Append(row);
  }
  return data;
}

TEST_CASE("The ensemble's spread matches its errors on unseen rows", "[forecaster][ensemble]") {
  const EnsembleData clean = MakeEnsembleData(80, 0, 1);
  const EnsembleData noisy = MakeEnsembleData(80, 1.0, 1);
  const absl::StatusOr<BoostedEnsemble> from_clean =
      BoostedEnsemble::Train(clean.rows, clean.values, 1, {});
  const absl::StatusOr<BoostedEnsemble> from_noisy =
      BoostedEnsemble::Train(noisy.rows, noisy.values, 1, {});
  REQUIRE((from_clean.ok() && from_noisy.ok()));
  const std::vector<float> row(5, 0.4f);
  CHECK(from_clean->Predict(row).scale < 0.7);
  CHECK(from_noisy->Predict(row).scale > 0.8);
  CHECK(from_clean->Predict(row).degrees_of_freedom == 79);
}

TEST_CASE("Out-of-bag predictions use only members that did not see the row",
          "[forecaster][ensemble]") {
  const EnsembleData data = MakeEnsembleData(40, 0.1, 2);
  const absl::StatusOr<BoostedEnsemble> ensemble =
      BoostedEnsemble::Train(data.rows, data.values, 1, {});
  REQUIRE(ensemble.ok());
  REQUIRE(ensemble->OutOfBag().size() == 40);
  double seen_error = 0;
  double unseen_error = 0;
  int unseen = 0;
  for (size_t i = 0; i < 40; ++i) {
    if (!ensemble->OutOfBag()[i].has_value()) continue;
    ++unseen;
    unseen_error += std::abs(*ensemble->OutOfBag()[i] - data.values[i]);
    seen_error += std::abs(ensemble->Mean(data.rows.row(i)) - data.values[i]);
  }
  CHECK(unseen > 30);
  CHECK(unseen_error > 1.2 * seen_error);
}

TEST_CASE("Two rows are enough and one is not", "[forecaster][ensemble]") {
  const EnsembleData data = MakeEnsembleData(2, 0, 3);
  CHECK(BoostedEnsemble::Train(data.rows, data.values, 1, {}).ok());
  const EnsembleData single = MakeEnsembleData(1, 0, 3);
  CHECK(
      absl::IsInvalidArgument(BoostedEnsemble::Train(single.rows, single.values, 1, {}).status()));
}

TEST_CASE("A prior keeps few rows from looking exact", "[forecaster][ensemble]") {
  EnsembleData data = MakeEnsembleData(4, 0, 4);
  data.values.assign(4, 1.0f);
  const absl::StatusOr<BoostedEnsemble> ensemble =
      BoostedEnsemble::Train(data.rows, data.values, 1.69, {});
  REQUIRE(ensemble.ok());
  CHECK(ensemble->Predict(data.rows.row(0)).scale > 0.5);
}

}  // namespace
}  // namespace kernelcast::forecaster
