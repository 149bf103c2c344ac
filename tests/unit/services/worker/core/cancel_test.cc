#include "services/worker/core/cancel.h"

#include <catch2/catch.hpp>
#include <thread>

namespace kernelcast::worker {
namespace {

TEST_CASE("A token is stopped by its deadline or by cancellation") {
  FakeClock clock(1000);
  CancelToken token(2000, clock);
  CHECK(token.Check().ok());
  clock.Advance(999);
  CHECK_FALSE(token.stopped());
  clock.Advance(1);
  CHECK(absl::IsDeadlineExceeded(token.Check()));
  token.Cancel();
  CHECK(absl::IsCancelled(token.Check()));
}

TEST_CASE("A token without a deadline runs until cancelled") {
  CancelToken token;
  CHECK(token.Check().ok());
  token.Cancel();
  CHECK(token.stopped());
}

TEST_CASE("Sleeping ends when the token is cancelled") {
  CancelToken token;
  std::thread canceller([&] { token.Cancel(); });
  token.SleepFor(int64_t{3600} * 1'000'000'000);
  canceller.join();
  CHECK(token.stopped());
}

TEST_CASE("Sleeping does not go beyond the deadline") {
  CancelToken token(Clock::Real().MonotonicNs() - 1);
  token.SleepFor(int64_t{3600} * 1'000'000'000);
  CHECK(absl::IsDeadlineExceeded(token.Check()));
}

}  // namespace
}  // namespace kernelcast::worker
