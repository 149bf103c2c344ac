#ifndef KERNELCAST_SERVICES_CLI_CORE_EXIT_CODE_H_
#define KERNELCAST_SERVICES_CLI_CORE_EXIT_CODE_H_

#include "absl/status/status.h"

namespace kernelcast::cli {

// What the program ends with. Documented in --help; never renumbered.
enum class ExitCode {
  kOk = 0,
  // The operation ran and its result is negative: no candidate faster, an evaluation that failed.
  kNegative = 1,
  // Bad usage or bad input.
  kUsage = 2,
  // A service could not be started or reached, or did not answer in time.
  kUnreachable = 3,
  kInterrupted = 4,
  kInternal = 5,
};

// The code for an operation that ended with `status`.
ExitCode ExitCodeFor(const absl::Status& status);

// The table of codes, for --help.
const char* ExitCodeHelp();

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_EXIT_CODE_H_
