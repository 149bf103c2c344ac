#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_COMPLETION_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>

namespace kernelcast::cli {

// Completion scripts, generated from the commands and flags of `app`.
std::string BashCompletion(const CLI::App& app);
std::string ZshCompletion(const CLI::App& app);
std::string FishCompletion(const CLI::App& app);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_COMPLETION_H_
