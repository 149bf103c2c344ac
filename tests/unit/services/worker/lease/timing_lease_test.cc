#include "services/worker/lease/timing_lease.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/id.h"

namespace kernelcast::worker {
namespace {

std::string LeaseFile() {
  return (std::filesystem::temp_directory_path() / RandomId("kernelcast-lease-")).string();
}

TEST_CASE("The lease has one holder at a time, within a process and between workers") {
  const std::string path = LeaseFile();
  auto first = TimingLease::Open(path);
  auto second = TimingLease::Open(path);  // like another process
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

// A process that holds the lease of `path`. When continued it exits, with 1 if it still has the
// lease.
pid_t StartHolder(const std::string& path) {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    auto lease = TimingLease::Open(path);
    auto held = (*lease)->Acquire(CancelToken());
    (void)!write(ready[1], "x", 1);
    raise(SIGSTOP);
    _exit(held->Check().ok() ? 1 : 0);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  int status = 0;
  REQUIRE(waitpid(child, &status, WUNTRACED) == child);
  REQUIRE(WIFSTOPPED(status));
  close(ready[0]);
  close(ready[1]);
  return child;
}

TEST_CASE("A waiting process takes the lease of a stopped one, which notices when it resumes") {
  const std::string path = LeaseFile();
  const pid_t stopped = StartHolder(path);
  auto first = TimingLease::Open(path, /*stopped_limit_ns=*/1'000'000);
  auto second = TimingLease::Open(path, /*stopped_limit_ns=*/1'000'000);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  {
    const CancelToken patient(Clock::Real().MonotonicNs() + 20'000'000'000);
    auto held = (*first)->Acquire(patient);
    REQUIRE(held.ok());
    CHECK(held->Check().ok());
    // A running process keeps it.
    const CancelToken hurried(Clock::Real().MonotonicNs() + 300'000'000);
    CHECK(absl::IsDeadlineExceeded((*second)->Acquire(hurried).status()));
    CHECK(held->Check().ok());
  }
  CHECK((*second)->Acquire(CancelToken()).ok());
  REQUIRE(kill(stopped, SIGCONT) == 0);
  int status = 0;
  REQUIRE(waitpid(stopped, &status, 0) == stopped);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".takeover");
}

TEST_CASE("A thread may release a lease that another has acquired") {
  auto lease = TimingLease::Open("");
  REQUIRE(lease.ok());
  auto held = (*lease)->Acquire(CancelToken());
  REQUIRE(held.ok());
  std::thread([moved = *std::move(held)] {}).join();
  CHECK((*lease)->Acquire(CancelToken()).ok());
}

TEST_CASE("Without a file the lease works within the process") {
  auto lease = TimingLease::Open("");
  REQUIRE(lease.ok());
  auto held = (*lease)->Acquire(CancelToken());
  REQUIRE(held.ok());
  CancelToken cancelled;
  cancelled.Cancel();
  CHECK(absl::IsCancelled((*lease)->Acquire(cancelled).status()));
}

TEST_CASE("A lease file that cannot be opened is reported") {
  CHECK_FALSE(TimingLease::Open("/proc/no/such/file").ok());
}

}  // namespace
}  // namespace kernelcast::worker
