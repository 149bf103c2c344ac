#include "common/base/awake_time.h"

#include <catch2/catch.hpp>

namespace kernelcast {
namespace {

TEST_CASE("Time in which the waiting process was stopped does not count") {
  FakeClock clock;
  AwakeTime waited(clock, /*longest_gap_ns=*/100);
  CHECK(waited.Look() == 0);
  for (int i = 0; i < 3; ++i) {
    clock.Advance(70);
    waited.Look();
  }
  CHECK(waited.Look() == 210);
  clock.Advance(1'000'000);
  CHECK(waited.Look() == 310);
  clock.Advance(100);
  CHECK(waited.Look() == 410);
}

}  // namespace
}  // namespace kernelcast
