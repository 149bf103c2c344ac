#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_COMPARED_SIDES_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_COMPARED_SIDES_H_

#include <string>

#include "absl/status/statusor.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/report/comparison.h"

namespace kernelcast::cli {

// Sides of a comparison.

// A suite, by its folder or its file of results. Errors as ReadSuiteResults.
[[nodiscard]] absl::StatusOr<ComparedSide> SideOfSuite(const std::string& path);
// A file of exported records. Errors as ReadRecords.
[[nodiscard]] absl::StatusOr<ComparedSide> SideOfRecords(const std::string& path);
// A search, by what FindSearchId accepts. INVALID_ARGUMENT: it ran on several device models.
[[nodiscard]] absl::StatusOr<ComparedSide> SideOfSearch(const Context& context,
                                                        Connection& connection,
                                                        const std::string& given);
// A kernel that was evaluated, by its id or the beginning of it. NOT_FOUND, and INVALID_ARGUMENT if
// several begin like that.
[[nodiscard]] absl::StatusOr<ComparedSide> SideOfKernel(Connection& connection,
                                                        const std::string& given);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_COMPARED_SIDES_H_
