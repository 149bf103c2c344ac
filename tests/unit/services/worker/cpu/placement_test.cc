#include "services/worker/cpu/placement.h"

#include <unistd.h>

#include <catch2/catch.hpp>

namespace kernelcast::worker {
namespace {

TEST_CASE("Judge and runner run on cores that this process may use") {
  const Placement placement = Placement::Choose();
  CHECK(placement.runner_cpu >= 0);
  CHECK(placement.judge_cpu >= 0);
}

TEST_CASE("The time waited for a core only grows") {
  const WaitMeter meter = WaitMeter::OfThisThread();
  const int64_t before_ns = meter.WaitedNs();
  CHECK(meter.WaitedNs() >= before_ns);
  CHECK(WaitMeter().WaitedNs() == 0);
  CHECK(WaitMeter::OfProcess(getpid()).WaitedNs() >= 0);
}

}  // namespace
}  // namespace kernelcast::worker
