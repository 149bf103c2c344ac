#include "services/cli/core/exit_code.h"

namespace kernelcast::cli {

ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return ExitCode::kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented: return ExitCode::kUsage;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted: return ExitCode::kUnreachable;
    case absl::StatusCode::kCancelled: return ExitCode::kInterrupted;
    default: return ExitCode::kInternal;
  }
}

const char* ExitCodeHelp() {
  return "Exit codes:\n"
         "  0  done\n"
         "  1  done, and the result is negative: nothing faster found, an evaluation failed,\n"
         "     a check did not pass\n"
         "  2  bad usage or input\n"
         "  3  a service could not be started or reached, no worker can do it, or output could "
         "not\n"
         "     be written\n"
         "  4  interrupted\n"
         "  5  internal error\n";
}

}  // namespace kernelcast::cli
