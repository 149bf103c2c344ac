#include "services/worker/native/compiler_step.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

// glibc 2.36 does not declare its functions extern "C"; later versions do.
extern "C" {
#include <sys/pidfd.h>
}

#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/awake_time.h"
#include "common/base/descriptor.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/process/child_process.h"
#include "services/worker/compiler_sandbox/status_wire.h"

namespace kernelcast::worker {
namespace {

// Interval at which output is read and a stopped token is noticed.
constexpr int kPollMs = 2;
constexpr int64_t kMaxFileBytes = 256 << 20;
constexpr int64_t kReportLimitNs = 10'000'000'000;
constexpr int64_t kNsPerSecond = 1'000'000'000;
// Wall time that a step may take: this for each unit of processor time, and a minute. Compilers
// have a low priority.
constexpr int64_t kWallPerCpu = 10;
constexpr int64_t kMoreWallNs = 60 * kNsPerSecond;

std::vector<std::string> SandboxArguments(const CompilerSandbox& sandbox,
                                          const std::string& directory) {
  std::vector<std::string> arguments = {sandbox.program, absl::StrCat(sandbox.uid),
                                        std::filesystem::absolute(directory).string()};
  arguments.insert(arguments.end(), sandbox.read_only.begin(), sandbox.read_only.end());
  return arguments;
}

// Whether the sandbox says that the compiler ran. Both ends of the pipe are closed but ours.
bool Ran(int status_fd) {
  char states[2] = {};
  return read(status_fd, states, sizeof(states)) == 1 && states[0] == sandbox_status::kRunning;
}

// The start of a driver's line which says that a program that it started was killed.
std::string DriverFatalError(const std::string& driver) {
  return absl::StrCat(std::filesystem::path(driver).filename().string(), ": fatal error: ");
}

// Whether a file in the folder is as large as a file may be.
bool FilledFile(const std::string& directory, int64_t max_file_bytes) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    struct stat info {};
    if (lstat(entry.path().c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        info.st_size >= max_file_bytes) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string CompilerSandboxBeside(const std::string& other_program) {
  return (std::filesystem::path(other_program).parent_path() / "kernelcast-compiler-sandbox")
      .string();
}

absl::StatusOr<std::vector<std::string>> MissingProtections(const CompilerSandbox& sandbox,
                                                            const std::string& directory) {
  ChildOptions child;
  child.argv = SandboxArguments(sandbox, directory);
  child.argv.emplace_back("--report");
  child.working_directory = directory;
  const auto spawned = ChildProcess::Spawn(child);
  if (!spawned.ok()) {
    return absl::UnavailableError(spawned.status().message());
  }
  const ChildExit exit = (*spawned)->Wait(kReportLimitNs);
  if (!exit.exited || exit.exit_code != 0) {
    return absl::UnavailableError(
        absl::StrCat(sandbox.program, " does not work: ", exit.output.substr(0, 500)));
  }
  return absl::StrSplit(exit.output, '\n', absl::SkipEmpty());
}

absl::StatusOr<CompilerStep> RunCompilerStep(const CompilerSandbox& sandbox,
                                             const std::vector<std::string>& argv,
                                             const std::vector<std::string>& environment,
                                             const std::string& directory,
                                             const CompilerLimits& limits,
                                             const CancelToken& cancel) {
  ChildOptions child;
  child.argv = SandboxArguments(sandbox, directory);
  child.argv.emplace_back("--");
  child.argv.insert(child.argv.end(), argv.begin(), argv.end());
  int status_pipe[2];
  if (pipe2(status_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  const Descriptor status(status_pipe[0]);
  Descriptor status_of_child(status_pipe[1]);
  child.descriptors = {{status_of_child.get(), sandbox_status::kFd}};
  child.environment = environment;
  // Relative, because without namespaces the folder's path may lead through folders of root.
  std::erase_if(child.environment,
                [](const std::string& variable) { return absl::StartsWith(variable, "TMPDIR="); });
  child.environment.emplace_back("TMPDIR=.");
  child.working_directory = directory;
  child.max_output_bytes = 8 << 20;
  child.kept_output_bytes = limits.max_log_bytes;
  child.max_address_space_bytes = limits.max_memory_bytes;
  child.max_cpu_seconds = limits.timeout_ns / kNsPerSecond + 1;
  child.max_file_bytes = limits.max_file_bytes;
  auto spawned = ChildProcess::Spawn(child);
  if (!spawned.ok()) {
    return absl::UnavailableError(spawned.status().message());
  }
  status_of_child.reset();
  ChildProcess& process = **spawned;
  setpriority(PRIO_PROCESS, static_cast<id_t>(process.pid()), kCompileNice);

  const int64_t wall_limit_ns = kWallPerCpu * limits.timeout_ns + kMoreWallNs;
  AwakeTime waited;
  // Readable once the process has ended. Without it (-1) the end is seen at the next look.
  const Descriptor ended(pidfd_open(process.pid(), 0));
  while (!process.Poll()) {
    KC_RETURN_IF_ERROR(cancel.Check());
    if (waited.Look() > wall_limit_ns) {
      break;
    }
    pollfd ready{ended.get(), POLLIN, 0};
    poll(&ready, 1, kPollMs);
  }
  const ChildExit exit = process.Wait(0);
  if (exit.timed_out) {
    return absl::UnavailableError(absl::StrCat(argv[0], " did not end within ",
                                               wall_limit_ns / kNsPerSecond,
                                               " s and used little processor time"));
  }
  if (!Ran(status.get())) {
    return absl::UnavailableError(
        absl::StrCat("cannot run ", argv[0],
                     " in the compilers' sandbox: ", SanitizeUtf8(exit.output.substr(0, 500))));
  }
  CompilerStep step;
  step.ok = exit.exited && exit.exit_code == 0;
  step.signal = exit.signal;
  step.exit_code = exit.exit_code;
  step.log = exit.output;
  if (step.ok) return step;
  const auto exceeded = [&step](const std::string& what) {
    step.limit = true;
    absl::StrAppend(&step.log, "\nstopped: the compiler ", what);
  };
  if (exit.output_limit) {
    exceeded("printed too much");
  } else if (exit.cpu_ns >= limits.timeout_ns) {
    exceeded(
        absl::StrCat("used more than ", limits.timeout_ns / kNsPerSecond, " s of processor time"));
  } else if (FilledFile(directory, limits.max_file_bytes)) {
    exceeded(absl::StrCat("wrote a file of more than ", limits.max_file_bytes >> 20, " MiB"));
  } else if (exit.max_resident_bytes > limits.max_memory_bytes / 2 && exit.signal != SIGKILL &&
             !absl::StrContains(exit.output, DriverFatalError(argv[0]))) {
    // Beyond the limit an allocation fails. What kills is the machine.
    exceeded(absl::StrCat("needed more than ", limits.max_memory_bytes >> 20, " MiB of memory"));
  }
  return step;
}

absl::StatusOr<WorkFolder> WorkFolder::Make(const std::string& parent, uint32_t owner) {
  // Absolute, because programs that use it have other working directories.
  std::error_code error;
  std::string path =
      absl::StrCat(std::filesystem::absolute(parent, error).string(), "/compile-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a folder in ", parent, ": ", std::strerror(errno)));
  }
  WorkFolder folder(path, geteuid() == 0 ? owner : 0);
  chmod(path.c_str(), 0700);  // whatever the mask
  if (folder.owner_ != 0 && chown(path.c_str(), folder.owner_, folder.owner_) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot give away ", path, ": ", std::strerror(errno)));
  }
  return folder;
}

WorkFolder::~WorkFolder() {
  if (!path_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
}

std::optional<std::string> WorkFolder::Read(const std::string& name) const {
  const int fd = open(absl::StrCat(path_, "/", name).c_str(),
                      O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  struct stat info {};
  std::string content;
  bool whole = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= kMaxFileBytes;
  if (whole) {
    content.resize(static_cast<size_t>(info.st_size));
    size_t size = 0;
    while (size < content.size()) {
      const ssize_t got = read(fd, content.data() + size, content.size() - size);
      if (got <= 0) break;
      size += static_cast<size_t>(got);
    }
    whole = size == content.size();
  }
  close(fd);
  if (!whole) return std::nullopt;
  return content;
}

absl::Status WorkFolder::Write(const std::string& name, const std::string& content) const {
  const std::string path = absl::StrCat(path_, "/", name);
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  const bool written = file && chmod(path.c_str(), 0600) == 0 &&
                       (owner_ == 0 || chown(path.c_str(), owner_, owner_) == 0);
  return written ? absl::OkStatus()
                 : absl::UnavailableError(absl::StrCat("cannot write to ", path_));
}

}  // namespace kernelcast::worker
