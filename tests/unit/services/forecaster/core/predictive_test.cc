#include "services/forecaster/core/predictive.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace kernelcast::forecaster {
namespace {

TEST_CASE("The standard deviation is wider than the scale", "[forecaster][predictive]") {
  CHECK(StandardDeviation({0, 2, 4}) == Approx(2 * std::sqrt(2.0)));
  CHECK(StandardDeviation({0, 2, 2}) == 2);
}

}  // namespace
}  // namespace kernelcast::forecaster
