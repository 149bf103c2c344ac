#include "common/rpc/request_error.h"

#include <catch2/catch.hpp>
#include <string>

#include "kernelcast/v1/worker.pb.h"

namespace kernelcast::request_error_test {
namespace {

v1::RequestError Sent(const absl::Status& status) {
  v1::RequestError error;
  SetRequestError(status, error);
  return error;
}

TEST_CASE("An error of one request keeps its code, message and hints", "[request_error]") {
  const absl::Status plain = absl::NotFoundError("no such problem");
  CHECK(FromRequestError(Sent(plain)) == plain);
  CHECK_FALSE(Sent(plain).has_retry_after());
  CHECK_FALSE(Sent(plain).not_started());

  const v1::RequestError full = Sent(OverloadedError("full", absl::Milliseconds(1050)));
  CHECK(full.code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(full.message() == "full");
  CHECK(full.retry_after().seconds() == 1);
  CHECK(full.retry_after().nanos() == 50'000'000);
  CHECK(RetryAfter(FromRequestError(full)) == absl::Milliseconds(1050));

  const absl::Status draining = FromRequestError(Sent(NotStartedError("draining")));
  CHECK(absl::IsUnavailable(draining));
  CHECK(IsNotStarted(draining));
}

TEST_CASE("An error without a code is unknown", "[request_error]") {
  v1::RequestError error;
  error.set_message("odd");
  CHECK(absl::IsUnknown(FromRequestError(error)));
}

TEST_CASE("A peer's retry hint is limited", "[request_error]") {
  v1::RequestError error;
  error.set_code(grpc::StatusCode::RESOURCE_EXHAUSTED);
  for (const int64_t seconds : {int64_t{115} * 86400, INT64_MAX}) {
    error.mutable_retry_after()->set_seconds(seconds);
    CHECK(RetryAfter(FromRequestError(error)) == kLongestRetryAfter);
  }
  for (const int64_t seconds : {int64_t{-5}, INT64_MIN}) {
    error.mutable_retry_after()->set_seconds(seconds);
    CHECK(RetryAfter(FromRequestError(error)) == absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace kernelcast::request_error_test
