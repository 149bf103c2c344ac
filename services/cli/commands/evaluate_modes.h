#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_EVALUATE_MODES_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_EVALUATE_MODES_H_

#include <map>
#include <string>
#include <string_view>

#include "kernelcast/v1/orchestrator.pb.h"

namespace kernelcast::cli {

// The values of --mode.
const std::map<std::string, v1::EvaluateMode>& Modes();
inline constexpr std::string_view kModeHelp =
    "route: the policy decides; measure; final: measure at the final level; forecast: do not "
    "measure; check: check the outputs, time nothing";

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_EVALUATE_MODES_H_
