#ifndef KERNELCAST_SERVICES_WORKER_NATIVE_COMPILER_STEP_H_
#define KERNELCAST_SERVICES_WORKER_NATIVE_COMPILER_STEP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/core/cancel.h"

namespace kernelcast::worker {

// Nice value of compilers, so that they yield to what is being timed.
inline constexpr int kCompileNice = 10;

// Sandbox of compilers. They see only their own folder, which is writable, and `read_only`. They
// have no network and are not root.
struct CompilerSandbox {
  std::string program;  // kernelcast-compiler-sandbox
  uint32_t uid = 0;     // user of compilers when the worker is root; 0: stay root
  std::vector<std::string> read_only;
};

// Path of kernelcast-compiler-sandbox in the folder of `other_program`, as built and installed.
std::string CompilerSandboxBeside(const std::string& other_program);

// Limits for each process that a compiler starts.
struct CompilerLimits {
  // Processor time. The whole step may take ten times as long, and a minute.
  int64_t timeout_ns = 15'000'000'000;
  int64_t max_memory_bytes = int64_t{3} << 30;
  int64_t max_file_bytes = 32 << 20;
  int64_t max_log_bytes = 64 << 10;
};

struct CompilerStep {
  bool ok = false;
  // It was stopped or denied something for exceeding a limit; the last line of the log says so.
  bool limit = false;
  int signal = 0;  // that ended it, if it did not exit
  int exit_code = 0;
  std::string log;

  std::string LastLine() const { return log.substr(log.rfind('\n') + 1); }
};

// Runs a compiler, given by its path, in `directory`, with only the given environment. CANCELLED,
// DEADLINE_EXCEEDED: the token was stopped and the compiler killed. UNAVAILABLE: it did not run, or
// did not end although it did not use up its processor time.
[[nodiscard]] absl::StatusOr<CompilerStep> RunCompilerStep(
    const CompilerSandbox& sandbox, const std::vector<std::string>& argv,
    const std::vector<std::string>& environment, const std::string& directory,
    const CompilerLimits& limits, const CancelToken& cancel);

// Returns the names of the sandbox protections that this machine does not permit. UNAVAILABLE: the
// sandbox cannot be started.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> MissingProtections(
    const CompilerSandbox& sandbox, const std::string& directory);

// A folder that is removed with all its files at the end of the scope.
class WorkFolder {
 public:
  // Owned by user `owner` if this process is root. UNAVAILABLE: it cannot be created in `parent`.
  [[nodiscard]] static absl::StatusOr<WorkFolder> Make(const std::string& parent, uint32_t owner);
  ~WorkFolder();
  WorkFolder(WorkFolder&& other) noexcept : path_(std::move(other.path_)), owner_(other.owner_) {
    other.path_.clear();
  }
  WorkFolder& operator=(WorkFolder&&) = delete;

  const std::string& path() const { return path_; }
  // Returns the content of a regular file in the folder, or nullopt. Links are not followed,
  // because the programs that write there are untrusted.
  std::optional<std::string> Read(const std::string& name) const;
  // Call it before any compiler has run. UNAVAILABLE: the disk is full.
  [[nodiscard]] absl::Status Write(const std::string& name, const std::string& content) const;

 private:
  WorkFolder(std::string path, uint32_t owner) : path_(std::move(path)), owner_(owner) {}
  std::string path_;
  uint32_t owner_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_NATIVE_COMPILER_STEP_H_
