#include "common/llm/retry_policy.h"

#include <catch2/catch.hpp>

namespace kernelcast::llm {
namespace {

constexpr int64_t kRetrySecondNs = 1'000'000'000;
// Sun, 06 Nov 1994 08:49:37 GMT
constexpr int64_t kWallNs = 784'111'777 * kRetrySecondNs;

}  // namespace

TEST_CASE("Retry-After is read as seconds and as a date in each format", "[llm]") {
  CHECK(ParseRetryAfter("7", 0) == 7 * kRetrySecondNs);
  CHECK(ParseRetryAfter(" 0.5 ", 0) == kRetrySecondNs / 2);
  CHECK(ParseRetryAfter("0", 0) == 0);
  CHECK(ParseRetryAfter("Sun, 06 Nov 1994 08:49:37 GMT", kWallNs - 5 * kRetrySecondNs) ==
        5 * kRetrySecondNs);
  CHECK(ParseRetryAfter("Sunday, 06-Nov-94 08:49:37 GMT", kWallNs - kRetrySecondNs) ==
        kRetrySecondNs);
  CHECK(ParseRetryAfter("Sun Nov  6 08:49:37 1994", kWallNs - kRetrySecondNs) == kRetrySecondNs);
  CHECK(ParseRetryAfter("Sun, 06 Nov 1994 08:49:37 GMT", kWallNs + kRetrySecondNs) == 0);
}

TEST_CASE("A meaningless Retry-After is ignored, and an excessive one is capped", "[llm]") {
  for (const char* text : {"", " ", "soon", "-1", "nan", "1x", "0x10", "Sun, 99 Nov 1994"}) {
    INFO(text);
    CHECK(!ParseRetryAfter(text, kWallNs).has_value());
  }
  const int64_t week_ns = 7 * 86400 * kRetrySecondNs;
  CHECK(ParseRetryAfter("1e300", 0) == week_ns);
  CHECK(ParseRetryAfter("1e999", 0) == week_ns);
  CHECK(ParseRetryAfter("Sun, 06 Nov 2994 08:49:37 GMT", kWallNs) == week_ns);
}

TEST_CASE("Backoff is uniform below a doubling ceiling, on top of the requested delay", "[llm]") {
  CHECK(BackoffNs(0, 100, 1000, 0, 0.5) == 50);
  CHECK(BackoffNs(1, 100, 1000, 0, 0.5) == 100);
  CHECK(BackoffNs(3, 100, 1000, 0, 0.5) == 400);
  CHECK(BackoffNs(50, 100, 1000, 0, 0.5) == 500);
  CHECK(BackoffNs(0, 100, 1000, 0, 0) == 0);
  for (const double uniform : {0.0, 0.3, 0.999}) {
    CHECK(BackoffNs(0, 100, 1000, 7000, uniform) >= 7000);
    CHECK(BackoffNs(0, 100, 1000, 7000, uniform) <= 7100);
  }
}

TEST_CASE("Retries stay within a tenth of the calls plus the reserve", "[llm]") {
  RetryBudget budget(0.1, 10);
  int allowed = 0;
  for (int calls = 1; calls <= 10'000; ++calls) {
    budget.OnCall();
    for (int i = 0; i < 3; ++i) allowed += budget.Take() ? 1 : 0;
    REQUIRE(allowed <= 10 + 0.1 * calls + 1e-6);
  }
  CHECK(allowed >= 1000);
  RetryBudget none(0, 0);
  none.OnCall();
  CHECK(!none.Take());
}

TEST_CASE("The retry reserve does not accumulate without bound", "[llm]") {
  RetryBudget budget(0.1, 10);
  for (int i = 0; i < 1'000'000; ++i) budget.OnCall();
  int allowed = 0;
  while (budget.Take()) ++allowed;
  CHECK(allowed <= 110);
}

TEST_CASE("Statuses are classified by number and error code, never by text", "[llm]") {
  CHECK(ClassifyHttpStatus(429, "", "") == ErrorKind::kRateLimited);
  CHECK(ClassifyHttpStatus(429, "rate_limit_exceeded", "tokens") == ErrorKind::kRateLimited);
  CHECK(ClassifyHttpStatus(429, "insufficient_quota", "") == ErrorKind::kSpendLimit);
  CHECK(ClassifyHttpStatus(429, "", "insufficient_quota") == ErrorKind::kSpendLimit);
  CHECK(ClassifyHttpStatus(402, "", "") == ErrorKind::kSpendLimit);
  CHECK(ClassifyHttpStatus(503, "", "") == ErrorKind::kUnavailable);
  CHECK(ClassifyHttpStatus(500, "", "") == ErrorKind::kServerError);
  CHECK(ClassifyHttpStatus(504, "", "") == ErrorKind::kServerError);
  CHECK(ClassifyHttpStatus(408, "", "") == ErrorKind::kServerError);
  CHECK(ClassifyHttpStatus(401, "", "") == ErrorKind::kUnauthorized);
  CHECK(ClassifyHttpStatus(404, "", "") == ErrorKind::kNotFound);
  CHECK(ClassifyHttpStatus(400, "", "") == ErrorKind::kRefused);
  CHECK(ClassifyHttpStatus(307, "", "") == ErrorKind::kRefused);
}

TEST_CASE("Transient errors, endpoint failures and overload are separate classes", "[llm]") {
  CHECK(!MayPass(ErrorKind::kSpendLimit));
  CHECK(!MayPass(ErrorKind::kRefused));
  CHECK(!MayPass(ErrorKind::kAnswerTooLarge));
  CHECK(MayPass(ErrorKind::kUnavailable));
  CHECK(IsOverload(ErrorKind::kUnavailable));
  CHECK(IsOverload(ErrorKind::kRateLimited));
  CHECK(!IsFailure(ErrorKind::kRateLimited));
  CHECK(IsFailure(ErrorKind::kUnavailable));
  CHECK(IsEndpointFault(ErrorKind::kSpendLimit));
  CHECK(!IsEndpointFault(ErrorKind::kRefused));
}

}  // namespace kernelcast::llm
