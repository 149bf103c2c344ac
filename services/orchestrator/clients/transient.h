#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_TRANSIENT_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_TRANSIENT_H_

#include "absl/status/status.h"

namespace kernelcast::orchestrator {

// Whether another server, or the same one later, may succeed with the same request.
inline bool IsTransient(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled: return true;
    default: return false;
  }
}

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_TRANSIENT_H_
