#ifndef KERNELCAST_TESTS_SUPPORT_SERVICES_H_
#define KERNELCAST_TESTS_SUPPORT_SERVICES_H_

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/process/child_process.h"

namespace kernelcast::testing {

// A file or folder below the sources, wherever they are now: KERNELCAST_SOURCE_DIR in the
// environment, such as where a bundle is tried out, or where they were built.
std::string SourcePath(const std::string& path);
// Folder of the programs: KERNELCAST_BIN_DIR in the environment, or the build's.
std::string ProgramFolder();

// A folder that goes away with the test.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string File(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Where a service runs.
struct ServiceSite {
  std::string name;  // of its files; empty: the program's
  std::string host = "127.0.0.1";
  int port = 0;
  // What starts the program, given as its arguments; empty: nothing does.
  std::vector<std::string> launcher;
};

// One of the services as a process of its own, as a user would start it: on a port that the kernel
// chose the first time and that it keeps when it is started again.
class Service {
 public:
  // `program` is a name such as "kernelcast-worker"; `arguments` come after the shared ones.
  Service(std::string program, std::vector<std::string> arguments, const TemporaryFolder& folder,
          ServiceSite site = {});

  // Starts it and waits until it serves. An error holds the end of its output.
  [[nodiscard]] absl::Status Start();
  // SIGKILL, and reaps.
  void Kill();
  // SIGTERM; the exit code, or -signal.
  int Terminate();
  // The signal, such as SIGSTOP. Nothing where it does not run.
  void Signal(int number) const;
  bool running() const { return child_ != nullptr; }
  pid_t pid() const { return child_ != nullptr ? child_->pid() : -1; }
  const std::string& address() const { return address_; }
  int metrics_port() const { return metrics_port_; }

 private:
  const std::string program_;
  const std::vector<std::string> arguments_;
  const ServiceSite site_;
  const std::string ready_file_;
  std::string address_;
  int metrics_port_ = 0;
  std::unique_ptr<ChildProcess> child_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_SERVICES_H_
