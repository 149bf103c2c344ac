#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_PROBLEM_ARGUMENT_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_PROBLEM_ARGUMENT_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "kernelcast/v1/kernel.pb.h"
#include "services/cli/commands/console.h"
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

// Returns the target `asked` for. If it is empty: DefaultTarget, until a service has answered.
// INVALID_ARGUMENT: the problem has no reference for it; the message lists its targets.
[[nodiscard]] absl::StatusOr<std::string> ChooseTarget(const Problem& problem,
                                                       const std::string& asked);
v1::PutProblemRequest PutRequest(const Problem& problem);
// Replaces a target that ChooseTarget returned because none was `asked` for by the default target
// of a service's reply. Returns whether the target changes.
bool TakeDefaultTarget(const std::string& asked, const v1::PutProblemReply& reply,
                       std::string& target);
// Says on which GPUs a PyTorch task is judged by default, if it is and no target was `asked` for.
void NoteTaskGpus(Console& console, const std::string& asked, const v1::PutProblemReply& reply);

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
