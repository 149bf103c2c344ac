#ifndef KERNELCAST_COMMON_RPC_REQUEST_ERROR_H_
#define KERNELCAST_COMMON_RPC_REQUEST_ERROR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast {

// Converts between the status of a unary call and v1::RequestError, the error of one request on a
// stream. Templates, because this folder does not depend on the messages.

template <class RequestError>
void SetRequestError(const absl::Status& status, RequestError& error) {
  const grpc::Status converted = ToGrpc(status);
  error.set_code(static_cast<int32_t>(converted.error_code()));
  error.set_message(converted.error_message());
  error.set_not_started(IsNotStarted(status));
  if (auto retry_after = RetryAfter(status)) {
    auto* const proto = error.mutable_retry_after();
    proto->set_seconds(absl::IDivDuration(*retry_after, absl::Seconds(1), &*retry_after));
    proto->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(*retry_after)));
  }
}

template <class RequestError>
absl::Status FromRequestError(const RequestError& error) {
  if (error.not_started()) return NotStartedError(error.message());
  const absl::Status status =
      FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(error.code()), error.message()));
  if (status.code() == absl::StatusCode::kResourceExhausted && error.has_retry_after()) {
    return OverloadedError(error.message(), absl::Seconds(error.retry_after().seconds()) +
                                                absl::Nanoseconds(error.retry_after().nanos()));
  }
  return status.ok() ? absl::UnknownError(error.message()) : status;
}

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_REQUEST_ERROR_H_
