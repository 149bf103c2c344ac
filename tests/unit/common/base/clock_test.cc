#include "common/base/clock.h"

#include <catch2/catch.hpp>

namespace kernelcast {

TEST_CASE("The machine's monotonic clock never steps back", "[clock]") {
  const Clock& clock = Clock::Real();
  int64_t last = clock.MonotonicNs();
  for (int i = 0; i < 10'000; ++i) {
    const int64_t now = clock.MonotonicNs();
    REQUIRE(now >= last);
    last = now;
  }
}

TEST_CASE("The machine's wall clock is past 2020", "[clock]") {
  CHECK(Clock::Real().WallNs() > int64_t{1'577'836'800} * 1'000'000'000);
}

TEST_CASE("A fake clock moves only when advanced", "[clock]") {
  FakeClock clock(5);
  CHECK(clock.MonotonicNs() == 5);
  CHECK(clock.WallNs() == 5);
  clock.Advance(7);
  CHECK(clock.MonotonicNs() == 12);
}

}  // namespace kernelcast
