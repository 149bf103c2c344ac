#ifndef KERNELCAST_SERVICES_CLI_CORE_PATHS_H_
#define KERNELCAST_SERVICES_CLI_CORE_PATHS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast::cli {

// Value of an environment variable, "" where it is not set. Injected for tests.
using Environment = std::function<std::string(const std::string& name)>;
Environment ProcessEnvironment();

// $XDG_STATE_HOME/kernelcast, else ~/.local/state/kernelcast. FAILED_PRECONDITION: neither
// XDG_STATE_HOME nor HOME is set.
[[nodiscard]] absl::StatusOr<std::string> DefaultStateDir(const Environment& environment);

// Folder of the running program.
std::string ProgramFolder();

// Folders that hold problems by name, in the order in which they are searched: those of
// KERNELCAST_PROBLEMS (':' between them), examples/problems in the working directory, and
// ../share/kernelcast/problems beside the program. They need not exist.
std::vector<std::string> ProblemFolders(const Environment& environment,
                                        const std::string& program_folder);

// The folder of a problem that a user named: the path of a folder that holds problem.yaml, or a
// name found in `folders`. NOT_FOUND says where was searched and what is near.
[[nodiscard]] absl::StatusOr<std::string> FindProblemFolder(
    const std::string& argument, const std::vector<std::string>& folders);

// Subfolders of `folder` that hold a problem.yaml, by name, sorted.
std::vector<std::string> ListProblems(const std::string& folder);

[[nodiscard]] absl::Status MakeFolders(const std::string& folder);

// Writes beside the target and renames, so that no reader sees half of it.
[[nodiscard]] absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

// NOT_FOUND, or INVALID_ARGUMENT above `max_bytes`.
[[nodiscard]] absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_PATHS_H_
