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

// A file or folder in the source tree: in KERNELCAST_SOURCE_DIR if set (used to test a bundle),
// else where the sources were at build time.
std::string SourcePath(const std::string& path);
// Folder of the programs: KERNELCAST_BIN_DIR if set, else the build's.
std::string ProgramFolder();
// The folders with the headers that candidates may include.
std::vector<std::string> CandidateHeaders();

// The lock file of the timing lease: KERNELCAST_LEASE_FILE, which ctest sets, else the machine's.
std::string TimingLeaseFile();

// A folder that is removed with the test.
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

struct ServiceSite {
  std::string name;  // used for its file names; empty: the program's
  std::string host = "127.0.0.1";
  int port = 0;
  // A program that gets the service's command line as its arguments and starts it; empty: none.
  std::vector<std::string> launcher;
};

// A service in its own process, started as a user would. The kernel chooses its port on the first
// start and restarts keep it.
class Service {
 public:
  // `program` is a name such as "kernelcast-worker"; `arguments` follow the shared ones.
  Service(std::string program, std::vector<std::string> arguments, const TemporaryFolder& folder,
          ServiceSite site = {});

  // Starts it and waits until it serves. An error includes the end of its output.
  [[nodiscard]] absl::Status Start();
  // Sends SIGKILL and reaps.
  void Kill();
  // Sends SIGTERM. Returns the exit code, or -signal.
  int Terminate();
  // Sends a signal such as SIGSTOP. No effect if it is not running.
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
