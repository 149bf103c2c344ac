#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_ROW_FLAGS_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_ROW_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/rpc/outcome_files.h"

namespace kernelcast::cli {

// How to read files of forecasts and outcomes.
struct RowFlags {
  std::string format = "auto";
  std::string bin_scheme;
};

void AddRowFlags(CLI::App& app, RowFlags& flags);
[[nodiscard]] absl::StatusOr<OutcomeFiles> ReadRowFiles(const std::vector<std::string>& files,
                                                        const RowFlags& flags);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_ROW_FLAGS_H_
