#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_EVALUATE_MODES_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_EVALUATE_MODES_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <map>
#include <string>

#include "kernelcast/v1/orchestrator.pb.h"

namespace kernelcast::cli {

// The values of --mode.
const std::map<std::string, v1::EvaluateMode>& Modes();
// Adds the options --mode and --in-flight.
void AddEvaluateOptions(CLI::App& app, std::string& mode, size_t& max_in_flight);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_EVALUATE_MODES_H_
