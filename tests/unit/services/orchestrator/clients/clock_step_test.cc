// Tests the effects of setting the wall clock back.

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "services/orchestrator/clients/worker_pool.h"
#include "tests/support/recorded_problem.h"
#include "tests/unit/services/orchestrator/clients/fake_peers.h"

namespace {
std::atomic<int> seconds_back = 0;
}

// Replaces the C library's function for the whole process.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec -= seconds_back;
  return static_cast<int>(result);
}

namespace kernelcast::orchestrator::testing {
namespace {

TEST_CASE("A wall clock set back delays neither worker loss detection nor waiting work") {
  const auto recorded = kernelcast::testing::MakeRecordedProblem(4, 4);
  const auto problem = std::make_shared<const Problem>(recorded.problem);
  FakeWorker worker("w");
  worker.Start();
  WorkerPoolOptions options;
  options.discovery.addresses = {worker.address()};
  options.peers.describe_interval = absl::Milliseconds(50);
  auto pool = WorkerPool::Create(options, [] {});
  REQUIRE(pool.ok());
  REQUIRE(Eventually([&] { return (*pool)->CapacityFor("cpu", "some CPU").measure_slots > 0; }));

  const absl::Time before = absl::Now();
  std::atomic<int> measured = 0;
  int requests = 0;
  const auto measure = [&] {
    (*pool)->Measure("r" + std::to_string(++requests), problem, recorded.candidates[0], "some CPU",
                     MeasureLevel::kScreen, /*profile=*/false,
                     [&](const absl::StatusOr<MeasureResult>& result) { measured += result.ok(); });
  };
  worker.Stop();
  REQUIRE(Eventually([&] { return !(*pool)->View().at(0).healthy; }));
  measure();
  const auto stepped_at = std::chrono::steady_clock::now();
  seconds_back = 60;
  // Abseil compares its own clock with the system's every few seconds.
  REQUIRE(Eventually([&] { return absl::Now() < before; }));
  worker.Start();
  CHECK(Eventually([&] { return measured == 1; }));
  // A worker that reports overload is retried after its hint.
  worker.Fail(OverloadedError("full", absl::Milliseconds(20)));
  measure();
  CHECK(Eventually([&] { return (*pool)->Counts().repeated_refused > 0; }));
  seconds_back = 120;
  worker.Fail(absl::OkStatus());
  CHECK(Eventually([&] { return measured == 2; }));
  CHECK(std::chrono::steady_clock::now() - stepped_at < std::chrono::seconds(50));
}

}  // namespace
}  // namespace kernelcast::orchestrator::testing
