#ifndef KERNELCAST_SERVICES_CLI_LAUNCH_SERVICE_PROCESS_H_
#define KERNELCAST_SERVICES_CLI_LAUNCH_SERVICE_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::cli {

// A long-lived child process with its output in a file. It has its own process group, so that the
// terminal's Ctrl-C does not reach it. The kernel kills it when the thread that started it ends.
// The destructor kills and reaps it. Not thread-safe.
class ServiceProcess {
 public:
  // `argv[0]` is a path. Appends to `log_file`. UNAVAILABLE: it cannot be started.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ServiceProcess>> Spawn(
      const std::vector<std::string>& argv, const std::string& log_file);
  ~ServiceProcess();
  ServiceProcess(const ServiceProcess&) = delete;
  ServiceProcess& operator=(const ServiceProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Readable once the process has ended.
  int fd() const { return pid_fd_; }
  // Whether it has ended; does not block.
  bool Ended();
  // After it has ended: "exited with code 3", "was killed by signal 9".
  const std::string& ending() const { return ending_; }
  void Signal(int number);

 private:
  ServiceProcess(pid_t pid, int pid_fd) : pid_(pid), pid_fd_(pid_fd) {}
  pid_t pid_;
  int pid_fd_;
  bool ended_ = false;
  std::string ending_;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_LAUNCH_SERVICE_PROCESS_H_
