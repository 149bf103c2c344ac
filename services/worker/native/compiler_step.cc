#include "services/worker/native/compiler_step.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/descriptor.h"
#include "common/base/status.h"
#include "common/process/child_process.h"

namespace kernelcast::worker {
namespace {

// Interval at which output is read and a stopped token is noticed.
constexpr int kPollMs = 2;
constexpr int64_t kMaxFileBytes = 256 << 20;
// Exit code of GCC's driver when a signal ended the compiler proper.
constexpr int kDriverSawSignal = 4;
constexpr int64_t kReportLimitNs = 10'000'000'000;

std::vector<std::string> SandboxArguments(const CompilerSandbox& sandbox,
                                          const std::string& directory) {
  std::vector<std::string> arguments = {sandbox.program, absl::StrCat(sandbox.uid),
                                        std::filesystem::absolute(directory).string()};
  arguments.insert(arguments.end(), sandbox.read_only.begin(), sandbox.read_only.end());
  return arguments;
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
  child.environment = environment;
  child.working_directory = directory;
  child.max_output_bytes = 8 << 20;
  child.kept_output_bytes = limits.max_log_bytes;
  child.max_address_space_bytes = limits.max_memory_bytes;
  child.max_cpu_seconds = limits.timeout_ns / 1'000'000'000 + 1;
  child.max_file_bytes = limits.max_file_bytes;
  auto spawned = ChildProcess::Spawn(child);
  if (!spawned.ok()) {
    return absl::UnavailableError(spawned.status().message());
  }
  ChildProcess& process = **spawned;
  setpriority(PRIO_PROCESS, static_cast<id_t>(process.pid()), kCompileNice);

  const int64_t deadline_ns = Clock::Real().MonotonicNs() + limits.timeout_ns;
  // Readable once the process has ended. Without it (-1) the end is seen at the next look.
  const Descriptor ended(pidfd_open(process.pid(), 0));
  while (!process.Poll()) {
    KC_RETURN_IF_ERROR(cancel.Check());
    if (Clock::Real().MonotonicNs() > deadline_ns) {
      break;
    }
    pollfd ready{ended.get(), POLLIN, 0};
    poll(&ready, 1, kPollMs);
  }
  const ChildExit exit = process.Wait(0);
  CompilerStep step;
  step.ok = exit.exited && exit.exit_code == 0;
  step.log = exit.output;
  if (exit.timed_out) {
    step.limit = true;
    absl::StrAppend(&step.log, "\nstopped: the compiler ran for more than ",
                    limits.timeout_ns / 1'000'000'000, " s");
  } else if (exit.output_limit) {
    step.limit = true;
    absl::StrAppend(&step.log, "\nstopped: the compiler printed too much");
  } else if (!step.ok && (exit.signal != 0 || exit.exit_code == kDriverSawSignal ||
                          exit.max_resident_bytes > limits.max_memory_bytes / 2)) {
    step.limit = true;
    absl::StrAppend(&step.log, "\nstopped: the compiler exceeded its memory, file or time limit");
  }
  return step;
}

absl::StatusOr<WorkFolder> WorkFolder::Make(const std::string& parent, uint32_t owner) {
  std::string path = absl::StrCat(parent, "/compile-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a folder in ", parent, ": ", std::strerror(errno)));
  }
  WorkFolder folder(path, geteuid() == 0 ? owner : 0);
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
  const bool written = file && (owner_ == 0 || chown(path.c_str(), owner_, owner_) == 0);
  return written ? absl::OkStatus()
                 : absl::UnavailableError(absl::StrCat("cannot write to ", path_));
}

}  // namespace kernelcast::worker
