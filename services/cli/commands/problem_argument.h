#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_PROBLEM_ARGUMENT_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_PROBLEM_ARGUMENT_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/cli/commands/context.h"

namespace kernelcast::cli {

struct LoadedProblem {
  std::string folder;
  Problem problem;
};

// Finds, reads and parses the problem that a user named. The message of INVALID_ARGUMENT starts
// with the path of the file.
[[nodiscard]] absl::StatusOr<LoadedProblem> LoadProblem(const Context& context,
                                                        const std::string& argument);
[[nodiscard]] absl::StatusOr<LoadedProblem> LoadProblemFolder(const std::string& folder);

// INVALID_ARGUMENT, listing what there is, unless the problem has a reference for the target.
[[nodiscard]] absl::Status CheckTarget(const Problem& problem, const std::string& target);

// Points of the target's space; 0 where it has none.
uint64_t SpacePoints(const Problem& problem, const std::string& target);

// The positional argument PROBLEM, with what it may be.
void AddProblemArgument(CLI::App& app, std::string& problem);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_PROBLEM_ARGUMENT_H_
