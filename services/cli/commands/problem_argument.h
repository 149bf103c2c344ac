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

// The target to work on: the one asked for, or, where `asked` is empty, cpu if the problem has it
// and else its first. INVALID_ARGUMENT, listing what there is: the problem has no reference for it.
[[nodiscard]] absl::StatusOr<std::string> ChooseTarget(const Problem& problem,
                                                       const std::string& asked);

// Points of the target's space; 0 where it has none.
uint64_t SpacePoints(const Problem& problem, const std::string& target);

// The positional argument PROBLEM, with what it may be.
void AddProblemArgument(CLI::App& app, std::string& problem);
// The option --target, for ChooseTarget.
void AddTargetOption(CLI::App& app, std::string& target);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_PROBLEM_ARGUMENT_H_
