#include "common/base/split_mix.h"

#include <catch2/catch.hpp>

namespace kernelcast {
namespace {

TEST_CASE("The generator has the published values of SplitMix64") {
  uint64_t state = 1234567;
  CHECK(SplitMix64(state) == 6457827717110365317u);
  CHECK(SplitMix64(state) == 3203168211198807973u);
  CHECK(SplitMix64(state) == 9817491932198370423u);
}

TEST_CASE("Values of the unit interval are at least 0 and below 1") {
  uint64_t state = 7;
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double value = UnitInterval(state);
    REQUIRE((value >= 0 && value < 1));
    sum += value;
  }
  CHECK(sum / 10'000 == Approx(0.5).margin(0.02));
}

}  // namespace
}  // namespace kernelcast
