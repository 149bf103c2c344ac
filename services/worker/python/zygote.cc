#include "services/worker/python/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/process/send_descriptors.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {
namespace {

constexpr int kControlFd = 3;
constexpr int64_t kForkLimitNs = 5'000'000'000;
constexpr int kPollMs = 50;

std::vector<std::string> Arguments(const PythonZygote::Options& options) {
  const PythonInterpreter& python = options.python;
  std::vector<std::string> argv = {python.program, "-I", "-S", "-W", "ignore"};
  const std::vector<std::string> program = ProgramArguments(options.program);
  argv.insert(argv.end(), program.begin(), program.end());
  argv.insert(argv.end(), options.arguments.begin(), options.arguments.end());
  argv.insert(argv.end(), python.packages.begin(), python.packages.end());
  argv.emplace_back("--");
  argv.insert(argv.end(), python.read_only.begin(), python.read_only.end());
  argv.insert(argv.end(), options.read_only.begin(), options.read_only.end());
  return argv;
}

}  // namespace

absl::Status PythonZygote::Begin() {
  const std::lock_guard lock(mutex_);
  return BeginLocked();
}

absl::Status PythonZygote::BeginLocked() {
  process_.reset();
  control_.reset();
  ready_ = false;
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return absl::UnavailableError(absl::StrCat("socketpair: ", std::strerror(errno)));
  }
  control_.reset(sockets[0]);
  const Descriptor other(sockets[1]);
  ChildOptions child;
  child.argv = Arguments(options_);
  child.environment = options_.environment;
  child.working_directory = "/";
  child.descriptors = {{other.get(), kControlFd}};
  auto spawned = ChildProcess::Spawn(child);
  if (!spawned.ok()) return absl::UnavailableError(spawned.status().message());
  process_ = *std::move(spawned);
  return absl::OkStatus();
}

absl::Status PythonZygote::AwaitReply(int64_t limit_ns, int64_t& reply) {
  const int64_t deadline_ns = Clock::Real().MonotonicNs() + limit_ns;
  pollfd waiting{control_.get(), POLLIN, 0};
  while (poll(&waiting, 1, kPollMs) <= 0) {
    if (process_->Poll() || Clock::Real().MonotonicNs() > deadline_ns) break;
  }
  if (recv(control_.get(), &reply, sizeof(reply), MSG_DONTWAIT) == sizeof(reply)) {
    return absl::OkStatus();
  }
  process_->Kill();
  return absl::UnavailableError(
      absl::StrCat("the interpreter with PyTorch has ended: ", process_->output()));
}

absl::StatusOr<int64_t> PythonZygote::Ask(std::span<const int> descriptors,
                                          const std::string& environment) {
  int64_t reply = 0;
  if (!std::exchange(ready_, true)) {
    KC_RETURN_IF_ERROR(AwaitReply(kPythonStartLimitNs, reply));
  }
  const iovec message{const_cast<char*>(environment.data()), environment.size()};
  if (!SendDescriptors(control_.get(), {&message, 1}, descriptors)) {
    process_->Kill();
    return absl::UnavailableError("the interpreter with PyTorch has ended");
  }
  KC_RETURN_IF_ERROR(AwaitReply(kForkLimitNs, reply));
  return reply;
}

absl::StatusOr<std::unique_ptr<ChildProcess>> PythonZygote::Fork(std::span<const int> descriptors,
                                                                 const ChildOptions& limits) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    return absl::UnavailableError(absl::StrCat("pipe2: ", std::strerror(errno)));
  }
  Descriptor output(pipe_fds[0]);
  const Descriptor to_write(pipe_fds[1]);
  // Ended by NUL: an empty message would mean the end of the worker.
  std::string environment;
  for (const std::string& variable : limits.environment) {
    environment += variable;
    environment += '\0';
  }
  environment += '\0';
  std::vector<int> passed(descriptors.begin(), descriptors.end());
  passed.push_back(to_write.get());
  const std::lock_guard lock(mutex_);
  if (process_ == nullptr || process_->Poll()) KC_RETURN_IF_ERROR(BeginLocked());
  KC_ASSIGN_OR_RETURN(const int64_t pid, Ask(passed, environment));
  if (pid <= 0) return absl::UnavailableError("the interpreter with PyTorch cannot be copied");
  return ChildProcess::Adopt(static_cast<pid_t>(pid), output.release(), limits);
}

}  // namespace kernelcast::worker
