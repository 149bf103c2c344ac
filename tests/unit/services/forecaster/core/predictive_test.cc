#include "services/forecaster/core/predictive.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace kernelcast::forecaster {
namespace {

TEST_CASE("Student-t quantiles match the tables", "[forecaster][predictive]") {
  CHECK(StudentTQuantile(0.975, 10) == Approx(2.228139).epsilon(1e-5));
  CHECK(StudentTQuantile(0.95, 3) == Approx(2.353363).epsilon(1e-5));
  CHECK(StudentTQuantile(0.75, 1) == Approx(1.0).epsilon(1e-5));
  CHECK(StudentTQuantile(0.5, 7) == 0);
  CHECK(StudentTQuantile(0.025, 10) == Approx(-2.228139).epsilon(1e-5));
}

TEST_CASE("The distribution function inverts the quantile", "[forecaster][predictive]") {
  for (const double dof : {1.0, 3.0, 8.0, 40.0, 500.0}) {
    for (const double p : {0.001, 0.2, 0.5, 0.9, 0.9999}) {
      CAPTURE(dof, p);
      CHECK(StudentTCdf(StudentTQuantile(p, dof), dof) == Approx(p).epsilon(1e-6));
    }
  }
}

TEST_CASE("The standard deviation is wider than the scale", "[forecaster][predictive]") {
  CHECK(StandardDeviation({0, 2, 4}) == Approx(2 * std::sqrt(2.0)));
  CHECK(StandardDeviation({0, 2, 2}) == 2);
}

}  // namespace
}  // namespace kernelcast::forecaster
