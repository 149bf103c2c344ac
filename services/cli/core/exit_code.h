#ifndef KERNELCAST_SERVICES_CLI_CORE_EXIT_CODE_H_
#define KERNELCAST_SERVICES_CLI_CORE_EXIT_CODE_H_

#include "absl/status/status.h"

namespace kernelcast::cli {

// Exit codes of the program. Documented in --help; never renumber them.
enum class ExitCode {
  kOk = 0,
  // The operation ran with a negative result: no faster candidate, or a failed evaluation.
  kNegative = 1,
  // Invalid usage or input.
  kUsage = 2,
  // A service could not be started or reached, did not answer in time or has no device for it, or
  // output could not be written.
  kUnreachable = 3,
  kInterrupted = 4,
  kInternal = 5,
};

// Returns the code for an operation that ended with `status`.
ExitCode ExitCodeFor(const absl::Status& status);

// The table of codes, for --help.
const char* ExitCodeHelp();

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_EXIT_CODE_H_
