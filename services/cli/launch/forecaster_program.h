#ifndef KERNELCAST_SERVICES_CLI_LAUNCH_FORECASTER_PROGRAM_H_
#define KERNELCAST_SERVICES_CLI_LAUNCH_FORECASTER_PROGRAM_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/launch/interrupt.h"

namespace kernelcast::cli {

// Runs `program_folder`/kernelcast-forecaster with arguments that make it exit by itself, and
// returns its output. `on_poll`, if set, is called every few milliseconds while it runs,
// and kills it by returning false. UNAVAILABLE: the program is missing. FAILED_PRECONDITION: it
// failed; the message is its output. CANCELLED: interrupted or killed.
[[nodiscard]] absl::StatusOr<std::string> RunForecasterProgram(
    const std::string& program_folder, const std::vector<std::string>& arguments,
    const Interrupt& interrupt, const std::function<bool()>& on_poll = {});

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_LAUNCH_FORECASTER_PROGRAM_H_
