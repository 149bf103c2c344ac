#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_REQUEST_ERROR_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_REQUEST_ERROR_H_

#include "absl/status/status.h"
#include "common/convert/convert.h"
#include "common/rpc/status_conversion.h"
#include "kernelcast/v1/worker.pb.h"

namespace kernelcast::orchestrator {

// Converts the error of one request on a stream to the status that a unary call would have had.
inline absl::Status FromRequestError(const v1::RequestError& error) {
  if (error.not_started()) return NotStartedError(error.message());
  const absl::Status status =
      FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(error.code()), error.message()));
  if (status.code() == absl::StatusCode::kResourceExhausted && error.has_retry_after()) {
    return OverloadedError(error.message(), absl::Nanoseconds(ToNanoseconds(error.retry_after())));
  }
  return status.ok() ? absl::UnknownError(error.message()) : status;
}

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_REQUEST_ERROR_H_
