#include "common/process/process_limit.h"

#include <signal.h>
#include <time.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/process/child_process.h"

namespace kernelcast::process_limit_test {
namespace {

constexpr int64_t kMs = 1'000'000;

std::unique_ptr<ChildProcess> Shell(const std::string& script) {
  ChildOptions options;
  options.argv = {"/bin/sh", "-c", script};
  options.environment = {"PATH=/usr/bin:/bin"};
  auto child = ChildProcess::Spawn(options);
  REQUIRE(child.ok());
  return *std::move(child);
}

void Pause(int64_t ns) {
  const timespec pause{0, static_cast<long>(ns)};
  nanosleep(&pause, nullptr);
}

// The wall time until the limit is exceeded, or -1 after `at_most_ns`.
int64_t ExceededAfter(ProcessLimit& limit, int64_t at_most_ns) {
  const int64_t start_ns = Clock::Real().MonotonicNs();
  for (;;) {
    const int64_t passed_ns = Clock::Real().MonotonicNs() - start_ns;
    if (limit.Exceeded()) return passed_ns;
    if (passed_ns > at_most_ns) return -1;
    Pause(kMs);
  }
}

TEST_CASE("A process that computes exceeds its limit by its processor time", "[process]") {
  const auto child = Shell("while :; do :; done");
  const int64_t before_ns = ProcessCpuNs(child->pid());
  ProcessLimit limit(child->pid(), 200 * kMs, ProcessLimit::Watch::kWhenPassed);
  CHECK(ExceededAfter(limit, 60'000 * kMs) >= 190 * kMs);
  CHECK(ProcessCpuNs(child->pid()) - before_ns >= 180 * kMs);
}

TEST_CASE("A process that waits exceeds its limit, too", "[process]") {
  const auto watch = GENERATE(ProcessLimit::Watch::kAlways, ProcessLimit::Watch::kWhenPassed);
  const auto child = Shell("exec sleep 1000");
  ProcessLimit limit(child->pid(), 100 * kMs, watch);
  CHECK(ExceededAfter(limit, 60'000 * kMs) >= 90 * kMs);
}

TEST_CASE("Time in which a process is stopped does not count", "[process]") {
  const auto watch = GENERATE(ProcessLimit::Watch::kAlways, ProcessLimit::Watch::kWhenPassed);
  const auto child = Shell("while :; do :; done");
  ProcessLimit limit(child->pid(), 200 * kMs, watch);
  kill(child->pid(), SIGSTOP);
  CHECK(ExceededAfter(limit, 800 * kMs) == -1);
  kill(child->pid(), SIGCONT);
  CHECK(ExceededAfter(limit, 60'000 * kMs) > 0);
}

TEST_CASE("A process that stays stopped exceeds its limit after ten times as long", "[process]") {
  const auto child = Shell("while :; do :; done");
  ProcessLimit limit(child->pid(), 30 * kMs, ProcessLimit::Watch::kAlways);
  kill(child->pid(), SIGSTOP);
  CHECK(ExceededAfter(limit, 60'000 * kMs) >= 290 * kMs);
}

TEST_CASE("Time in which the waiting process itself was stopped does not count", "[process]") {
  const auto child = Shell("exec sleep 1000");
  ProcessLimit limit(child->pid(), 500 * kMs, ProcessLimit::Watch::kAlways);
  CHECK_FALSE(limit.Exceeded());
  Pause(900 * kMs);  // as long as nobody looks
  CHECK_FALSE(limit.Exceeded());
  CHECK(ExceededAfter(limit, 60'000 * kMs) > 0);
}

}  // namespace
}  // namespace kernelcast::process_limit_test
