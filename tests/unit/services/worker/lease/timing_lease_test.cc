#include "services/worker/lease/timing_lease.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "common/base/clock.h"
#include "common/base/id.h"

namespace kernelcast::worker {
namespace {

std::string LeaseFile() {
  return (std::filesystem::temp_directory_path() / RandomId("kernelcast-lease-")).string();
}

TEST_CASE("The lease is held by one at a time, within a process and between workers") {
  const std::string path = LeaseFile();
  auto first = TimingLease::Open(path);
  auto second = TimingLease::Open(path);  // as another process would
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  {
    auto held = (*first)->Acquire(CancelToken());
    REQUIRE(held.ok());
    const CancelToken hurried(Clock::Real().MonotonicNs() + 20'000'000);
    CHECK(absl::IsDeadlineExceeded((*second)->Acquire(hurried).status()));
    const CancelToken also(Clock::Real().MonotonicNs() + 20'000'000);
    CHECK(absl::IsDeadlineExceeded((*first)->Acquire(also).status()));
  }
  CHECK((*second)->Acquire(CancelToken()).ok());
  CHECK((*first)->Acquire(CancelToken()).ok());
  std::filesystem::remove(path);
}

TEST_CASE("Without a file the lease holds within the process") {
  auto lease = TimingLease::Open("");
  REQUIRE(lease.ok());
  auto held = (*lease)->Acquire(CancelToken());
  REQUIRE(held.ok());
  CancelToken cancelled;
  cancelled.Cancel();
  CHECK(absl::IsCancelled((*lease)->Acquire(cancelled).status()));
}

TEST_CASE("A lease file that cannot be opened is told") {
  CHECK_FALSE(TimingLease::Open("/proc/no/such/file").ok());
}

}  // namespace
}  // namespace kernelcast::worker
