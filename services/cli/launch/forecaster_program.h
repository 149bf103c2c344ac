#ifndef KERNELCAST_SERVICES_CLI_LAUNCH_FORECASTER_PROGRAM_H_
#define KERNELCAST_SERVICES_CLI_LAUNCH_FORECASTER_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/launch/interrupt.h"

namespace kernelcast::cli {

// Runs `program_folder`/kernelcast-forecaster with arguments that make it end by itself, and gives
// back what it printed. UNAVAILABLE: the program is missing. FAILED_PRECONDITION: it ended with an
// error; the message is what it printed. CANCELLED: interrupted, and the program killed.
[[nodiscard]] absl::StatusOr<std::string> RunForecasterProgram(
    const std::string& program_folder, const std::vector<std::string>& arguments,
    const Interrupt& interrupt);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_LAUNCH_FORECASTER_PROGRAM_H_
