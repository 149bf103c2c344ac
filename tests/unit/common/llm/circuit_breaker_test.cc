#include "common/llm/circuit_breaker.h"

#include <catch2/catch.hpp>

namespace kernelcast::llm {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

CircuitBreaker::Options Options() {
  CircuitBreaker::Options options;
  options.consecutive_failures = 3;
  options.failure_ratio = 0.5;
  options.min_samples = 10;
  options.open_ns = kSecondNs;
  options.open_cap_ns = 4 * kSecondNs;
  return options;
}

}  // namespace

TEST_CASE("A breaker opens after consecutive failures and closes when a probe succeeds", "[llm]") {
  CircuitBreaker breaker(Options());
  int64_t now = 100 * kSecondNs;
  for (int i = 0; i < 2; ++i) breaker.OnFailure(now, breaker.OnStart());
  breaker.OnSuccess(now, breaker.OnStart());
  for (int i = 0; i < 2; ++i) breaker.OnFailure(now, breaker.OnStart());
  CHECK(breaker.state() == BreakerState::kClosed);
  breaker.OnFailure(now, breaker.OnStart());
  CHECK(breaker.state() == BreakerState::kOpen);
  CHECK(!breaker.Allows(now + kSecondNs - 1));
  now += kSecondNs;
  REQUIRE(breaker.Allows(now));
  REQUIRE(breaker.OnStart());
  CHECK(breaker.state() == BreakerState::kHalfOpen);
  CHECK(!breaker.Allows(now));
  breaker.OnSuccess(now, true);
  CHECK(breaker.state() == BreakerState::kClosed);
  CHECK(breaker.Allows(now));
}

TEST_CASE("Each failed probe doubles the delay to the next, up to the cap", "[llm]") {
  CircuitBreaker breaker(Options());
  int64_t now = 100 * kSecondNs;
  for (int i = 0; i < 3; ++i) breaker.OnFailure(now, breaker.OnStart());
  for (const int64_t wait : {1, 2, 4, 4}) {
    CHECK(breaker.open_until_ns() == now + wait * kSecondNs);
    now = breaker.open_until_ns();
    breaker.OnFailure(now, breaker.OnStart());
  }
}

TEST_CASE("A breaker opens when half of the attempts within ten seconds fail", "[llm]") {
  CircuitBreaker breaker(Options());
  const int64_t now = 100 * kSecondNs;
  for (int i = 0; i < 5; ++i) {
    CHECK(breaker.state() == BreakerState::kClosed);
    breaker.OnSuccess(now + i * kSecondNs, breaker.OnStart());
    breaker.OnFailure(now + i * kSecondNs, breaker.OnStart());
  }
  CHECK(breaker.state() == BreakerState::kOpen);

  CircuitBreaker slow(Options());
  for (int i = 0; i < 50; ++i) {
    slow.OnSuccess(now + i * 3 * kSecondNs, slow.OnStart());
    slow.OnFailure(now + i * 3 * kSecondNs, slow.OnStart());
  }
  CHECK(slow.state() == BreakerState::kClosed);
}

TEST_CASE("Requests sent before the breaker opened neither close nor prolong it", "[llm]") {
  CircuitBreaker breaker(Options());
  const int64_t now = 100 * kSecondNs;
  for (int i = 0; i < 3; ++i) breaker.OnFailure(now, false);
  const int64_t until = breaker.open_until_ns();
  breaker.OnSuccess(now + 1, false);
  breaker.OnFailure(now + 2, false);
  CHECK(breaker.state() == BreakerState::kOpen);
  CHECK(breaker.open_until_ns() == until);
}

TEST_CASE("An abandoned probe makes room for another immediately", "[llm]") {
  CircuitBreaker breaker(Options());
  breaker.Trip(0);
  CHECK(!breaker.Allows(4 * kSecondNs - 1));
  REQUIRE(breaker.Allows(4 * kSecondNs));
  breaker.OnAbandoned(breaker.OnStart());
  CHECK(breaker.state() == BreakerState::kOpen);
  CHECK(breaker.Allows(4 * kSecondNs));
}

}  // namespace kernelcast::llm
