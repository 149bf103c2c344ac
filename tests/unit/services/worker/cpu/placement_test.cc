#include "services/worker/cpu/placement.h"

#include <sched.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace kernelcast::worker {
namespace {

TEST_CASE("Judge and runner run on cores that this process may use") {
  const Placement placement = Placement::Choose();
  CHECK(placement.runner_cpu >= 0);
  CHECK(placement.judge_cpu >= 0);
}

TEST_CASE(
    "What runs on the runners' core has ended when the call returns, and the caller keeps its "
    "core") {
  const Placement placement = Placement::Choose();
  const TimingPriority priority(placement);
  RunnerCore core(placement);
  for (int i = 0; i < 3; ++i) {
    int ran_on = -1;
    core.Run([&] { ran_on = sched_getcpu(); });
    CHECK(ran_on == placement.runner_cpu);
    CHECK(sched_getcpu() == placement.judge_cpu);
  }
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
