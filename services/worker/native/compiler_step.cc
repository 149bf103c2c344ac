#include "services/worker/native/compiler_step.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/process/child_process.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kPollNs = 1'000'000;
// Exit code of GCC's driver when the compiler proper was ended by a signal.
constexpr int kDriverSawSignal = 4;

}  // namespace

absl::StatusOr<CompilerStep> RunCompilerStep(const std::vector<std::string>& argv,
                                             const std::vector<std::string>& environment,
                                             const std::string& directory,
                                             const CompilerLimits& limits,
                                             const CancelToken& cancel) {
  ChildOptions child;
  child.argv = argv;
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
  while (!process.Poll()) {
    KC_RETURN_IF_ERROR(cancel.Check());
    if (Clock::Real().MonotonicNs() > deadline_ns) {
      break;
    }
    cancel.SleepFor(kPollNs);
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

absl::StatusOr<WorkFolder> WorkFolder::Make(const std::string& parent) {
  std::string path = absl::StrCat(parent, "/compile-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a folder in ", parent, ": ", std::strerror(errno)));
  }
  return WorkFolder(path);
}

WorkFolder::~WorkFolder() {
  if (!path_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
}

std::optional<std::string> WorkFolder::Read(const std::string& name) const {
  absl::StatusOr<std::string> content = ReadFile(absl::StrCat(path_, "/", name));
  if (!content.ok()) return std::nullopt;
  return *std::move(content);
}

absl::Status WorkFolder::Write(const std::string& name, const std::string& content) const {
  std::ofstream file(absl::StrCat(path_, "/", name), std::ios::binary);
  file << content;
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write to ", path_));
}

}  // namespace kernelcast::worker
