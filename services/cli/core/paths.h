#ifndef KERNELCAST_SERVICES_CLI_CORE_PATHS_H_
#define KERNELCAST_SERVICES_CLI_CORE_PATHS_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast::cli {

// Returns the value of an environment variable, or "" if it is not set. Injected for tests.
using Environment = std::function<std::string(const std::string& name)>;
Environment ProcessEnvironment();

// Returns $XDG_STATE_HOME/kernelcast, or ~/.local/state/kernelcast. FAILED_PRECONDITION: neither
// XDG_STATE_HOME nor HOME is set.
[[nodiscard]] absl::StatusOr<std::string> DefaultStateDir(const Environment& environment);

// A folder for temporary files, which is removed with its contents.
class ScratchFolder {
 public:
  // PERMISSION_DENIED: it cannot be made in the folder for temporary files.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ScratchFolder>> Make();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

// Folder of the running program.
std::string ProgramFolder();

// Returns the interpreter of the Python environment that the programs are installed in by pip, in
// lib/kernelcast/bin, or "". Debian's pip installs into /usr/local for /usr/bin/python3.
std::string EnvironmentPython(const std::string& program_folder);

// Returns the folders that are searched for problems by name, in order: those of
// KERNELCAST_PROBLEMS (separated by ':'), examples/problems in the working directory, and
// ../share/kernelcast/problems relative to the program. They need not exist.
std::vector<std::string> ProblemFolders(const Environment& environment,
                                        const std::string& program_folder);

// Returns the path of a problem: `argument` is the path of a folder that contains problem.yaml or
// of a Python task (common/domain/task_files.h), or a name to find in `folders`. NOT_FOUND: says
// where it searched and suggests similar names.
[[nodiscard]] absl::StatusOr<std::string> FindProblemFolder(
    const std::string& argument, const std::vector<std::string>& folders);

// Converts an untrusted name to a file name. Letters, digits, '-', '_' and inner dots are kept,
// other characters become '_', and long names are cut. A changed name gets a hash of the original,
// so that different names stay different.
std::string FileNameFor(const std::string& name);

// Returns the subfolders of `folder` that contain a problem.yaml, sorted by name.
std::vector<std::string> ListProblems(const std::string& folder);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_PATHS_H_
