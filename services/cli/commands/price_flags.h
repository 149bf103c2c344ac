#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_PRICE_FLAGS_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_PRICE_FLAGS_H_

#include <CLI/CLI.hpp>

#include "services/cli/core/cost.h"

namespace kernelcast::cli {

// Adds --device-price and the prices of tokens, also from the environment.
void AddPriceFlags(CLI::App& app, Prices& prices);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_PRICE_FLAGS_H_
