#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_CALL_END_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_CALL_END_H_

#include "absl/status/status.h"
#include "common/rpc/status_conversion.h"

namespace kernelcast::orchestrator {

// Meaning of the end of a call for the peer.
enum class CallEnd {
  kAnswered,        // OK, or an error that any peer would answer: the peer works
  kContentUnknown,  // it does not know the problem or a candidate of the request
  kHandedBack,      // it drains and has not started the request
  kRefused,         // it is full
  kLost,            // the connection broke, or it did not answer for too long
  kFailed,          // any other error: another peer, or the same one later, may succeed
};

// `given_up`: the call was ended because the peer was silent.
inline CallEnd EndOf(const absl::Status& status, bool given_up) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound: return CallEnd::kContentUnknown;
    case absl::StatusCode::kResourceExhausted: return CallEnd::kRefused;
    case absl::StatusCode::kUnavailable:
      return IsNotStarted(status) ? CallEnd::kHandedBack : CallEnd::kLost;
    // A server that shuts down cancels calls that arrive at that moment.
    case absl::StatusCode::kCancelled: return CallEnd::kLost;
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kAborted: return given_up ? CallEnd::kLost : CallEnd::kFailed;
    default: return CallEnd::kAnswered;
  }
}

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CLIENTS_CALL_END_H_
