#include "services/forecaster/embedded/gaussian_process.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

ProcessPrior Usual() { return UsualProcessPrior(RegressedValues::kSpeedups, kPrior.scale); }

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

TEST_CASE("Without points the prediction is the prior", "[forecaster][process]") {
  const GaussianProcess process = GaussianProcess::Fit({}, {}, Usual());
  const StudentT prediction = process.Predict({0, {0.5f}, {}});
  CHECK(prediction.location == 0);
  CHECK(prediction.scale == Approx(kPrior.scale));
  CHECK(prediction.degrees_of_freedom == kPrior.degrees_of_freedom);
}

TEST_CASE("One point pulls its neighbours more than distant points", "[forecaster][process]") {
  const std::vector<double> values = {2.0};
  const SpacePosition point = {0, {0.5f, kMissing}, {}};
  const GaussianProcess process = GaussianProcess::Fit({&point, 1}, values, Usual());
  const StudentT same = process.Predict({0, {0.5f, kMissing}, {}});
  const StudentT near = process.Predict({0, {0.7f, kMissing}, {}});
  const StudentT other = process.Predict({1, {kMissing, 0.5f}, {}});
  CHECK(same.location > 1.5);
  CHECK(near.location < same.location);
  CHECK(other.location < near.location);
  CHECK(other.location > 0);
  CHECK(same.scale < near.scale);
  CHECK(near.scale < other.scale);
  // Without other points the prediction for the only point is the prior.
  REQUIRE(process.LeaveOneOut().size() == 1);
  CHECK(process.LeaveOneOut()[0].location == Approx(0).margin(1e-9));
  CHECK(process.LeaveOneOut()[0].scale == Approx(kPrior.scale));
  CHECK(process.LeaveOneOut()[0].degrees_of_freedom == Approx(3));
}

TEST_CASE("A smooth function is interpolated", "[forecaster][process]") {
  const auto truth = [](float x, float y) { return std::sin(3 * x) + 0.5 * y; };
  std::vector<SpacePosition> points;
  std::vector<double> values;
  for (int i = 0; i <= 6; ++i) {
    for (int j = 0; j <= 6; ++j) {
      points.push_back({0, {i / 6.0f, j / 6.0f}, {}});
      values.push_back(truth(i / 6.0f, j / 6.0f));
    }
  }
  const GaussianProcess process = GaussianProcess::Fit(points, values, Usual());
  Random random(1);
  for (int i = 0; i < 50; ++i) {
    const float x = static_cast<float>(random.Uniform());
    const float y = static_cast<float>(random.Uniform());
    const StudentT prediction = process.Predict({0, {x, y}, {}});
    CHECK(prediction.location == Approx(truth(x, y)).margin(0.2));
    CHECK(prediction.scale < 0.5);
  }
}

TEST_CASE("Leave-one-out predicts equal points by the mean of the others",
          "[forecaster][process]") {
  // All positions are equal: each is predicted by the mean of the others, slightly shrunk towards
  // zero.
  const std::vector<SpacePosition> points(30, {0, {0.5f}, {}});
  std::vector<double> values;
  for (int i = 0; i < 30; ++i) values.push_back(i % 2 == 0 ? 0.9 : 1.1);
  const GaussianProcess process = GaussianProcess::Fit(points, values, Usual());
  for (const StudentT& out : process.LeaveOneOut()) {
    CHECK(out.location == Approx(1.0).margin(0.03));
    CHECK(out.scale > 0.05);
    CHECK(out.scale < 0.5);
  }
}

TEST_CASE("Facts alone distinguish candidates", "[forecaster][process]") {
  std::vector<SpacePosition> points;
  std::vector<double> values;
  Random random(2);
  for (int i = 0; i < 40; ++i) {
    const float fact = static_cast<float>(4 * random.Uniform());
    points.push_back({-1, {}, {fact, 7.0f}});
    values.push_back(0.8 * fact - 1);
  }
  const GaussianProcess process = GaussianProcess::Fit(points, values, Usual());
  CHECK(process.Predict({-1, {}, {3.0f, 7.0f}}).location == Approx(1.4).margin(0.25));
  CHECK(process.Predict({-1, {}, {1.0f, 7.0f}}).location == Approx(-0.2).margin(0.25));
}

TEST_CASE("A candidate without facts gets a wider prediction", "[forecaster][process]") {
  std::vector<SpacePosition> points;
  std::vector<double> values;
  Random random(3);
  for (int i = 0; i < 40; ++i) {
    const float fact = static_cast<float>(4 * random.Uniform());
    points.push_back({0, {}, {fact}});
    values.push_back(0.8 * fact - 1);
  }
  const GaussianProcess process = GaussianProcess::Fit(points, values, Usual());
  const StudentT prediction = process.Predict({0, {}, {}});
  CHECK(std::isfinite(prediction.location));
  CHECK(std::isfinite(prediction.scale));
  CHECK(std::isfinite(process.Predict({0, {}, {0.0f}}).location));
}

TEST_CASE("The same points in the same order give the same predictions", "[forecaster][process]") {
  std::vector<SpacePosition> points;
  std::vector<double> values;
  Random random(4);
  for (int i = 0; i < 25; ++i) {
    points.push_back({i % 3, {static_cast<float>(random.Uniform())}, {}});
    values.push_back(random.Uniform());
  }
  const GaussianProcess one = GaussianProcess::Fit(points, values, Usual());
  const GaussianProcess two = GaussianProcess::Fit(points, values, Usual());
  const SpacePosition at = {1, {0.3f}, {}};
  CHECK(one.Predict(at).location == two.Predict(at).location);
  CHECK(one.Predict(at).scale == two.Predict(at).scale);
}

}  // namespace
}  // namespace kernelcast::forecaster
