#include "common/domain/measuring_cost.h"

#include <catch2/catch.hpp>

namespace kernelcast {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST_CASE("Pruned candidates are costed like the measured ones", "[cost]") {
  MeasuringCost cost;
  cost.Pruned(0);
  CHECK(cost.AvoidedNs() == 0);
  cost.Measured(40 * kMs, true, 0);
  cost.Measured(60 * kMs, true, 0);
  CHECK(cost.AvoidedNs() == 50 * kMs);
  cost.Pruned(0);
  CHECK(cost.AvoidedNs() == 100 * kMs);
  cost.Unpruned(0);
  cost.Unpruned(0);
  CHECK(cost.AvoidedNs() == 0);
}

TEST_CASE("Candidates likely to fail are costed like failures", "[cost]") {
  MeasuringCost cost;
  // A quarter fails, as forecast, and each failure takes 2 ms.
  for (int i = 0; i < 30; ++i) cost.Measured(40 * kMs, true, 0.25);
  for (int i = 0; i < 10; ++i) cost.Measured(2 * kMs, false, 0.25);
  for (int i = 0; i < 100; ++i) cost.Pruned(0.25);
  CHECK(static_cast<double>(cost.AvoidedNs()) == Approx((75 * 40 + 25 * 2) * kMs).epsilon(0.01));
}

TEST_CASE("A forecaster that always predicts failure does not shrink the savings", "[cost]") {
  MeasuringCost cost;
  for (int i = 0; i < 100; ++i) cost.Measured(40 * kMs, true, 0.15);
  for (int i = 0; i < 100; ++i) cost.Pruned(0.15);
  CHECK(static_cast<double>(cost.AvoidedNs()) == Approx(100 * 40 * kMs).epsilon(0.01));
}

TEST_CASE("Measurements without a forecast add cost but no forecast error", "[cost]") {
  MeasuringCost cost;
  cost.Measured(40 * kMs, true, std::nullopt);
  cost.Measured(2 * kMs, false, std::nullopt);
  cost.Pruned(0);
  CHECK(cost.AvoidedNs() == 40 * kMs);
}

}  // namespace
}  // namespace kernelcast
