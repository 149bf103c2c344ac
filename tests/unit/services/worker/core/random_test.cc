#include "services/worker/core/random.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace kernelcast::worker {
namespace {

TEST_CASE("The generator matches its published values") {
  // xoshiro256** from the state that splitmix64 makes of 0.
  Random random(0);
  CHECK(random.Next() == 0x99ec5f36cb75f2b4u);
  CHECK(random.Next() == 0xbf6e1f784956452au);
  CHECK(random.Next() == 0x1a5f849d4933e6e0u);
}

TEST_CASE("Bounded values cover their range evenly") {
  Random random(3);
  std::vector<int> counts(7, 0);
  for (int i = 0; i < 70'000; ++i) {
    ++counts[random.Below(7)];
  }
  for (const int count : counts) {
    CHECK(count == Approx(10'000).epsilon(0.05));
  }
  CHECK(random.Below(1) == 0);
  CHECK(random.Below(0) == 0);
}

TEST_CASE("Normal values have mean zero, deviation one and tails") {
  Random random(4);
  double sum = 0;
  double squares = 0;
  int beyond_two = 0;
  constexpr int kCount = 100'000;
  for (int i = 0; i < kCount; ++i) {
    const double value = random.Normal();
    REQUIRE(std::isfinite(value));
    sum += value;
    squares += value * value;
    beyond_two += std::abs(value) > 2 ? 1 : 0;
  }
  CHECK(std::abs(sum / kCount) < 0.02);
  CHECK(squares / kCount == Approx(1).epsilon(0.02));
  CHECK(beyond_two == Approx(0.0455 * kCount).epsilon(0.1));
}

}  // namespace
}  // namespace kernelcast::worker
