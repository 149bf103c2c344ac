#include "services/forecaster/core/predictive.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace kernelcast::forecaster {
namespace {

TEST_CASE("The standard deviation is wider than the scale", "[forecaster][predictive]") {
  CHECK(StandardDeviation({0, 2, 4}) == Approx(2 * std::sqrt(2.0)));
  CHECK(StandardDeviation({0, 2, 2}) == 2);
}

TEST_CASE("A mixture has the mean of its parts, and their distance in its scale",
          "[forecaster][predictive]") {
  const StudentT mixture = Mixture({1, 2, 5}, {3, 4, 3}, 0.25);
  CHECK(mixture.location == 2.5);
  // 0.25 * 2^2 + 0.75 * 4^2 + 0.25 * 0.75 * 2^2
  CHECK(mixture.scale == Approx(std::sqrt(13.75)));
  CHECK(mixture.degrees_of_freedom == 3);
  CHECK(Mixture({1, 2, 5}, {3, 4, 5}, 1).location == 1);
  CHECK(Mixture({1, 2, 5}, {3, 4, 5}, 0).scale == 4);
}

}  // namespace
}  // namespace kernelcast::forecaster
