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

// Compilers give way to what is being timed.
inline constexpr int kCompileNice = 10;

// Of each process that a compiler starts.
struct CompilerLimits {
  int64_t timeout_ns = 15'000'000'000;  // of the whole step
  int64_t max_memory_bytes = int64_t{3} << 30;
  int64_t max_file_bytes = 32 << 20;
  int64_t max_log_bytes = 64 << 10;
};

struct CompilerStep {
  bool ok = false;
  // It was stopped, or refused something, for taking too much; the log says so.
  bool limit = false;
  std::string log;
};

// Runs a compiler to its end, in `directory`, with no environment but the one given. CANCELLED,
// DEADLINE_EXCEEDED: the token was stopped, and the compiler killed. UNAVAILABLE: it cannot be
// started.
[[nodiscard]] absl::StatusOr<CompilerStep> RunCompilerStep(
    const std::vector<std::string>& argv, const std::vector<std::string>& environment,
    const std::string& directory, const CompilerLimits& limits, const CancelToken& cancel);

// A folder that is removed with all its files at the end of the scope.
class WorkFolder {
 public:
  // UNAVAILABLE: it cannot be made in `parent`.
  [[nodiscard]] static absl::StatusOr<WorkFolder> Make(const std::string& parent);
  ~WorkFolder();
  WorkFolder(WorkFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  WorkFolder& operator=(WorkFolder&&) = delete;

  const std::string& path() const { return path_; }
  // The content of a file in it, or nothing where it cannot be read.
  std::optional<std::string> Read(const std::string& name) const;
  // UNAVAILABLE: no room.
  [[nodiscard]] absl::Status Write(const std::string& name, const std::string& content) const;

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_NATIVE_COMPILER_STEP_H_
