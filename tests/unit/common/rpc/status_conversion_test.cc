#include "common/rpc/status_conversion.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/time/clock.h"
#include "common/base/utf8.h"

namespace kernelcast {

TEST_CASE("Every status code round-trips with its number and message", "[status]") {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    CHECK(ToGrpc(status).error_code() == code);
    CHECK(ToGrpc(status).error_message() == "why");
    CHECK(FromGrpc(ToGrpc(status)) == status);
  }
  CHECK(ToGrpc(absl::OkStatus()).ok());
  CHECK(FromGrpc(grpc::Status::OK).ok());
}

TEST_CASE("A nonexistent code becomes UNKNOWN", "[status]") {
  CHECK(FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(20), "x")).code() ==
        absl::StatusCode::kUnknown);
}

TEST_CASE("Messages are made UTF-8 and cut at 4 KiB", "[status]") {
  const std::string message = "bad \xFF" + std::string(5'000, 'x') + "\xC3\xA9";
  const std::string sent = ToGrpc(absl::InternalError(message)).error_message();
  CHECK(sent.substr(0, 8) == "bad \xEF\xBF\xBDx");
  CHECK(sent.size() == 4'096);
  CHECK(IsValidUtf8(sent));
  std::string multibyte = "a";
  while (multibyte.size() < 5'000) multibyte += "\xE2\x82\xAC";
  CHECK(IsValidUtf8(ToGrpc(absl::InternalError(multibyte)).error_message()));
}

TEST_CASE("A retry hint is sent as a status payload, rounded up to milliseconds", "[status]") {
  const absl::Status status = OverloadedError("queue full", absl::Microseconds(1'500));
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(status.message()) == "queue full");
  CHECK(RetryAfter(status) == absl::Milliseconds(2));
  CHECK(status.GetPayload("kernelcast.v1/retry-after-ms") == absl::Cord("2"));
  CHECK(RetryAfter(absl::ResourceExhaustedError("no hint")) == std::nullopt);
  CHECK(RetryAfter(absl::OkStatus()) == std::nullopt);
}

TEST_CASE("An error that guarantees no effect is distinguished from other UNAVAILABLE errors",
          "[status]") {
  const absl::Status status = NotStartedError("draining");
  CHECK(absl::IsUnavailable(status));
  CHECK(std::string(status.message()) == "draining");
  CHECK(IsNotStarted(status));
  CHECK_FALSE(IsNotStarted(absl::UnavailableError("draining")));
  CHECK_FALSE(IsNotStarted(absl::OkStatus()));
}

TEST_CASE("A timeout becomes a deadline and an infinite one becomes none", "[status]") {
  grpc::ClientContext bounded;
  SetTimeout(bounded, absl::Minutes(1));
  const absl::Duration left = absl::FromChrono(bounded.deadline()) - absl::Now();
  CHECK(left > absl::Seconds(30));
  CHECK(left <= absl::Minutes(1));
  grpc::ClientContext unbounded;
  SetTimeout(unbounded, absl::InfiniteDuration());
  CHECK(unbounded.deadline() == std::chrono::system_clock::time_point::max());
}

}  // namespace kernelcast
