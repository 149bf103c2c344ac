#ifndef KERNELCAST_COMMON_PROCESS_CHILD_PROCESS_H_
#define KERNELCAST_COMMON_PROCESS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

struct ChildOptions {
  // argv[0] is a path, relative to working_directory, or a name that is looked up in the parent's
  // PATH.
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"; nothing is inherited
  std::string working_directory;         // empty: the parent's
  // {descriptor in the parent, number in the child}. All other descriptors are closed in the child,
  // except 0, which reads /dev/null, and 1 and 2, which are the output. The parent's descriptors
  // stay open. The numbers in the child must be below 32 and distinct.
  std::vector<std::pair<int, int>> descriptors;
  // Standard output and error share a pipe. The last kept_output_bytes are kept. The child is
  // killed if it writes more than max_output_bytes.
  int64_t max_output_bytes = 1 << 20;
  int64_t kept_output_bytes = 64 << 10;
  // Limits set right after the child starts (prlimit). 0: none. Core files are always disabled.
  int64_t max_address_space_bytes = 0;
  int64_t max_cpu_seconds = 0;
  int64_t max_file_bytes = 0;
};

struct ChildExit {
  bool exited = false;  // otherwise killed by `signal`
  int exit_code = 0;
  int signal = 0;
  bool timed_out = false;     // killed by this class at the deadline
  bool output_limit = false;  // exceeded max_output_bytes; killed if it had not ended
  std::string output;         // the last kept_output_bytes
  int64_t cpu_ns = 0;
  int64_t max_resident_bytes = 0;
};

// A child process in its own process group, started with posix_spawn, with all signals unblocked
// and at their defaults. When the child ends, the rest of its group is killed. The destructor kills
// the whole group and reaps the child. Not thread-safe.
class ChildProcess {
 public:
  // NOT_FOUND, PERMISSION_DENIED: the program cannot be started. INVALID_ARGUMENT: no argv, or a
  // descriptor out of range. RESOURCE_EXHAUSTED: out of processes or descriptors.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ChildProcess>> Spawn(
      const ChildOptions& options);
  // Takes over a child that another process has started for this one (CLONE_PARENT), and the end of
  // its output. Of `options` only the limits of the output apply. RESOURCE_EXHAUSTED: out of
  // descriptors; the child was killed.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ChildProcess>> Adopt(
      pid_t pid, int output_fd, const ChildOptions& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }

  // Processor time of all its threads so far, without its children. 0 once it has ended.
  int64_t CpuNs() const;

  // Reads output and waits until the child has ended or `timeout_ns` has passed. On timeout, kills
  // the whole group and sets timed_out. Later calls return the same result.
  ChildExit Wait(int64_t timeout_ns);

  // Reads output without blocking. Returns true if the child has ended; Wait then returns at once.
  bool Poll();

  // Sends SIGKILL to the whole group. May be called at any time.
  void Kill();

  // Readable when there is output to read with Poll; -1: it is closed. While nobody reads, a child
  // that prints waits once the pipe is full.
  int output_fd() const { return output_fd_; }

  // Standard output and error so far, at most kept_output_bytes.
  const std::string& output() const { return output_; }

 private:
  ChildProcess(int64_t max_output_bytes, int64_t kept_output_bytes, pid_t pid, int output_fd,
               int pid_fd)
      : max_output_bytes_(max_output_bytes),
        kept_output_bytes_(kept_output_bytes),
        pid_(pid),
        output_fd_(output_fd),
        pid_fd_(pid_fd) {}

  // Reads the available output, up to the capacity of a pipe. Kills the group if there is too much.
  void DrainOutput();
  void CloseOutput();
  // Blocks until the child has ended, kills the rest of its group and fills in exit_.
  void Reap();

  const int64_t max_output_bytes_;
  const int64_t kept_output_bytes_;
  const pid_t pid_;
  int output_fd_;  // -1 once closed
  int pid_fd_;
  int64_t output_bytes_ = 0;
  std::string output_;
  bool ended_ = false;
  ChildExit exit_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_PROCESS_CHILD_PROCESS_H_
