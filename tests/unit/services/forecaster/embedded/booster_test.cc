#include "services/forecaster/embedded/booster.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

struct Data {
  Matrix rows;
  std::vector<float> labels;
  std::vector<float> weights;
};

// Some values are missing.
Data MakeData(size_t rows, size_t columns, bool binary, uint64_t seed) {
  Data data;
  Random random(seed);
  for (size_t i = 0; i < rows; ++i) {
    std::vector<float> row(columns);
    for (float& value : row) {
      value = random.Below(8) == 0 ? std::numeric_limits<float>::quiet_NaN()
                                   : static_cast<float>(4 * random.Uniform() - 2);
    }
    const float x = std::isnan(row[0]) ? 0.7f : row[0];
    const float y = std::isnan(row[1]) ? -0.2f : row[1];
    const float label = x * y + (x > 0 ? 1 : 0);
    data.labels.push_back(binary ? (label > 0.3f ? 1.0f : 0.0f) : label);
    data.weights.push_back(static_cast<float>(random.Below(3)));
    data.rows.Append(row);
  }
  return data;
}

TEST_CASE("Flat trees predict what XGBoost predicts", "[forecaster][booster]") {
  for (const bool logistic : {false, true}) {
    for (const int depth : {1, 3, 6}) {
      for (const size_t count : {8, 60, 400}) {
        CAPTURE(logistic, depth, count);
        const Data data = MakeData(count, 12, logistic, count + depth);
        BoosterOptions options;
        options.logistic = logistic;
        options.max_depth = depth;
        options.rounds = 40;
        options.seed = 7;
        std::vector<float> expected;
        const absl::StatusOr<Forest> forest =
            TrainForest(data.rows, data.labels, data.weights, options, &expected);
        INFO(forest.status());
        REQUIRE(forest.ok());
        CHECK(forest->trees() == 40);
        REQUIRE(expected.size() == count);
        for (size_t i = 0; i < count; ++i) {
          CHECK(forest->Predict(data.rows.row(i)) == Approx(expected[i]).margin(1e-5));
        }
      }
    }
  }
}

TEST_CASE("Training fits the labels", "[forecaster][booster]") {
  const Data data = MakeData(300, 6, false, 3);
  const absl::StatusOr<Forest> forest =
      TrainForest(data.rows, data.labels, std::vector<float>(300, 1.0f), {});
  REQUIRE(forest.ok());
  double error = 0;
  double variance = 0;
  for (size_t i = 0; i < 300; ++i) {
    error += std::pow(forest->Predict(data.rows.row(i)) - data.labels[i], 2);
    variance += std::pow(data.labels[i] - 0.5, 2);
  }
  CHECK(error < 0.2 * variance);
}

TEST_CASE("Training is deterministic", "[forecaster][booster]") {
  const Data data = MakeData(100, 10, false, 5);
  BoosterOptions options;
  options.seed = 3;
  const absl::StatusOr<Forest> one = TrainForest(data.rows, data.labels, data.weights, options);
  const absl::StatusOr<Forest> two = TrainForest(data.rows, data.labels, data.weights, options);
  options.seed = 4;
  const absl::StatusOr<Forest> other = TrainForest(data.rows, data.labels, data.weights, options);
  REQUIRE((one.ok() && two.ok() && other.ok()));
  bool differs = false;
  for (size_t i = 0; i < 100; ++i) {
    CHECK(one->Predict(data.rows.row(i)) == two->Predict(data.rows.row(i)));
    differs = differs || one->Predict(data.rows.row(i)) != other->Predict(data.rows.row(i));
  }
  CHECK(differs);
}

TEST_CASE("Rows with zero weight are ignored", "[forecaster][booster]") {
  Data data = MakeData(100, 4, false, 9);
  Data spoilt = data;
  for (size_t i = 0; i < 100; ++i) {
    if (data.weights[i] == 0) spoilt.labels[i] = 1e6f;
  }
  const absl::StatusOr<Forest> one = TrainForest(data.rows, data.labels, data.weights, {});
  const absl::StatusOr<Forest> two = TrainForest(spoilt.rows, spoilt.labels, spoilt.weights, {});
  REQUIRE((one.ok() && two.ok()));
  CHECK(one->Predict(data.rows.row(0)) == two->Predict(data.rows.row(0)));
}

TEST_CASE("Unusable training sets are refused", "[forecaster][booster]") {
  Data data = MakeData(10, 4, false, 1);
  CHECK(absl::IsInvalidArgument(
      TrainForest(data.rows, data.labels, std::vector<float>(9, 1.0f), {}).status()));
  CHECK(absl::IsInvalidArgument(
      TrainForest(data.rows, data.labels, std::vector<float>(10, 0.0f), {}).status()));
  data.labels[0] = std::numeric_limits<float>::quiet_NaN();
  data.weights[0] = 1;
  CHECK(absl::IsInternal(TrainForest(data.rows, data.labels, data.weights, {}).status()));
}

}  // namespace
}  // namespace kernelcast::forecaster
