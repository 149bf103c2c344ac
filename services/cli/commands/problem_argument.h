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
// The same with a baseline; see WithBaseline. Empty: that of the files.
[[nodiscard]] absl::StatusOr<LoadedProblem> LoadProblem(const Context& context,
                                                        const std::string& argument,
                                                        const std::string& baseline);
[[nodiscard]] absl::StatusOr<LoadedProblem> LoadProblemFolder(const std::string& folder);

// Returns the target `asked` for. If it is empty: cpu if the problem has it, else its first target.
// Commands with a connection use Connection::TargetFor.
// INVALID_ARGUMENT: the problem has no reference for it; the message lists its targets.
[[nodiscard]] absl::StatusOr<std::string> ChooseTarget(const Problem& problem,
                                                       const std::string& asked);

// Number of points of the target's space, or 0 if it has none.
uint64_t SpacePoints(const Problem& problem, const std::string& target);

// Adds the positional argument PROBLEM.
void AddProblemArgument(CLI::App& app, std::string& problem);
// Adds the option --baseline.
void AddBaselineOption(CLI::App& app, std::string& baseline);
// Adds the option --target, for ChooseTarget.
void AddTargetOption(CLI::App& app, std::string& target);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_PROBLEM_ARGUMENT_H_
