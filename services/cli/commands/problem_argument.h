#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_PROBLEM_ARGUMENT_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_PROBLEM_ARGUMENT_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "common/domain/python_task.h"
#include "kernelcast/v1/kernel.pb.h"
#include "services/cli/commands/console.h"
#include "services/cli/commands/context.h"

namespace kernelcast::cli {

struct LoadedProblem {
  std::string folder;
  Problem problem;
};

// Finds, reads and parses the problem that a user named, first among those of --problem. The
// message of INVALID_ARGUMENT starts with the path of the file.
[[nodiscard]] absl::StatusOr<LoadedProblem> LoadProblem(const Context& context,
                                                        const std::string& argument);
// The same, judged with these options if any is set.
[[nodiscard]] absl::StatusOr<LoadedProblem> LoadProblem(const Context& context,
                                                        const std::string& argument,
                                                        const TaskOptions& options);
[[nodiscard]] absl::StatusOr<LoadedProblem> LoadProblemFolder(const std::string& folder);

// Returns the target `asked` for, or DefaultTarget if that is empty. See TakeDefaultTarget.
// INVALID_ARGUMENT: the problem has no reference for it; the message lists its targets.
[[nodiscard]] absl::StatusOr<std::string> ChooseTarget(const Problem& problem,
                                                       const std::string& asked);
v1::PutProblemRequest PutRequest(const Problem& problem);
// If no target was `asked` for, sets `target` to the default target in the reply of a service, and
// prints the GPUs that judge a PyTorch task. Returns whether the target changed.
bool TakeDefaultTarget(Console& console, const std::string& asked, const v1::PutProblemReply& reply,
                       std::string& target);

// Number of points of the target's space, or 0 if it has none.
uint64_t SpacePoints(const Problem& problem, const std::string& target);

// Adds the option --problem, whose values are for NameProblems.
void AddProblemsOption(CLI::App& app, std::vector<std::string>& problems);
// From now on LoadProblem finds these problems by their names too.
[[nodiscard]] absl::Status NameProblems(Context& context, const std::vector<std::string>& problems);

// Adds the positional argument PROBLEM.
void AddProblemArgument(CLI::App& app, std::string& problem);
// Adds the options --baseline and --task-rules-only.
void AddTaskOptions(CLI::App& app, TaskOptions& options);
// Adds the option --target, for ChooseTarget.
void AddTargetOption(CLI::App& app, std::string& target);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_PROBLEM_ARGUMENT_H_
