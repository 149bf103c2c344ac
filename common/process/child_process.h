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
  // argv[0] is a path, relative to working_directory, or a name looked up in the parent's PATH.
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"; nothing is inherited
  std::string working_directory;         // empty: the parent's
  // {parent's descriptor, number in the child}; every other descriptor is closed, save 0, which
  // reads /dev/null, and 1 and 2, which are the output. The parent keeps its own. The numbers in
  // the child are below 256 and differ from each other.
  std::vector<std::pair<int, int>> descriptors;
  // Standard output and error go to one pipe, of which the last bytes are kept; the child is killed
  // when it has written more than `max_output_bytes`.
  int64_t max_output_bytes = 1 << 20;
  int64_t kept_output_bytes = 64 << 10;
  // Limits set on the child before it can run for long (prlimit); 0: none. There is never a core
  // file.
  int64_t max_address_space_bytes = 0;
  int64_t max_cpu_seconds = 0;
  int64_t max_file_bytes = 0;
};

struct ChildExit {
  bool exited = false;  // else killed by `signal`
  int exit_code = 0;
  int signal = 0;
  bool timed_out = false;     // this class killed it at the deadline
  bool output_limit = false;  // it wrote too much, and was killed unless it had ended
  std::string output;         // what was kept
  int64_t cpu_ns = 0;
  int64_t max_resident_bytes = 0;
};

// A child in a process group of its own, made with posix_spawn, with every signal unblocked and at
// its default. When it has ended, by itself or not, what is left of its group is killed. The
// destructor kills the whole group and reaps the child. Not thread-safe.
class ChildProcess {
 public:
  // NOT_FOUND / PERMISSION_DENIED: the program cannot be started. INVALID_ARGUMENT: no argv, a
  // descriptor out of range. RESOURCE_EXHAUSTED: no process or descriptor to be had.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ChildProcess>> Spawn(
      const ChildOptions& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }

  // Drains output and waits until the child has ended or `timeout_ns` has passed; at the latter the
  // whole group is killed and the exit says timed_out. Again, later: the same answer.
  ChildExit Wait(int64_t timeout_ns);

  // Drains output without blocking. True when the child has ended; Wait then returns at once.
  bool Poll();

  // SIGKILL to the whole group. Safe to call at any time.
  void Kill();

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

  // Reads what is there, as far as a pipe can hold; kills the group when it is too much.
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
