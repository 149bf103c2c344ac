#include "common/domain/student_t.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numbers>

namespace kernelcast {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

TEST_CASE("Student-t quantiles match the tables", "[student_t]") {
  CHECK(StudentTQuantile(0.975, 10) == Approx(2.228139).epsilon(1e-6));
  CHECK(StudentTQuantile(0.95, 3) == Approx(2.353363).epsilon(1e-6));
  CHECK(StudentTQuantile(0.75, 1) == Approx(1.0).epsilon(1e-12));
  CHECK(StudentTQuantile(0.5, 7) == 0);
  CHECK(StudentTQuantile(0.025, 10) == Approx(-2.228139).epsilon(1e-6));
  CHECK(StudentTQuantile(0.975, kUnbounded) == Approx(1.959964).epsilon(1e-6));
}

TEST_CASE("The upper tail inverts the quantile", "[student_t]") {
  for (const double degrees : {0.7, 1.0, 3.0, 8.0, 40.0, 500.0, 1e9, kUnbounded}) {
    for (const double p : {1e-9, 0.001, 0.2, 0.5, 0.9, 0.9999}) {
      CAPTURE(degrees, p);
      const double t = StudentTQuantile(p, degrees);
      CHECK(StudentTUpperTail(-t, degrees) == Approx(p).epsilon(1e-10));
      CHECK(StudentTUpperTail(t, degrees) == Approx(1 - p).epsilon(1e-10));
    }
  }
}

TEST_CASE("Above 200 degrees of freedom the distribution is normal", "[student_t]") {
  for (const double t : {-3.0, -0.5, 0.0, 1.0, 2.0}) {
    const double normal = 0.5 * std::erfc(t / std::numbers::sqrt2);
    CHECK(StudentTUpperTail(t, 201) == Approx(normal).epsilon(1e-12));
    CHECK(StudentTUpperTail(t, kUnbounded) == Approx(normal).epsilon(1e-12));
    CHECK(StudentTUpperTail(t, 200) == Approx(normal).epsilon(0.1));
  }
}

}  // namespace
}  // namespace kernelcast
