#include "common/process/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// glibc 2.36 does not declare its functions extern "C"; later versions do.
extern "C" {
#include <sys/pidfd.h>
}

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/process/process_limit.h"

namespace kernelcast {
namespace {

// Above it the parent needs descriptors, so it is low: some machines permit only 256.
constexpr int kMaxChildDescriptor = 31;

absl::Status ErrnoStatus(int error, const std::string& what) {
  return absl::Status(absl::ErrnoToStatusCode(error), absl::StrCat(what, ": ", strerror(error)));
}

// Closes its descriptors at the end of the scope.
class DescriptorSet {
 public:
  DescriptorSet() = default;
  ~DescriptorSet() {
    for (const int fd : fds_) {
      close(fd);
    }
  }
  DescriptorSet(const DescriptorSet&) = delete;
  DescriptorSet& operator=(const DescriptorSet&) = delete;

  void Own(int fd) { fds_.push_back(fd); }
  void Release(int fd) { std::erase(fds_, fd); }

 private:
  std::vector<int> fds_;
};

// Arguments of posix_spawn. Owns the C structures.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  // `plan` contains {descriptor in the parent, number in the child}. Descriptors in the parent are
  // above all targets.
  absl::Status SetDescriptors(const std::vector<std::pair<int, int>>& plan) {
    std::array<bool, kMaxChildDescriptor + 1> wanted{};
    int highest = STDERR_FILENO;
    for (const auto& [from, to] : plan) {
      KC_RETURN_IF_ERROR(Ok(posix_spawn_file_actions_adddup2(&actions_, from, to)));
      wanted[to] = true;
      highest = std::max(highest, to);
    }
    if (!wanted[STDIN_FILENO]) {
      KC_RETURN_IF_ERROR(
          Ok(posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0)));
    }
    for (int fd = STDERR_FILENO + 1; fd < highest; ++fd) {
      if (!wanted[fd]) {
        KC_RETURN_IF_ERROR(Ok(posix_spawn_file_actions_addclose(&actions_, fd)));
      }
    }
    return Ok(posix_spawn_file_actions_addclosefrom_np(&actions_, highest + 1));
  }

  absl::Status SetDirectory(const std::string& directory) {
    return Ok(posix_spawn_file_actions_addchdir_np(&actions_, directory.c_str()));
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  static absl::Status Ok(int error) {
    return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "cannot prepare a process");
  }

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

std::vector<char*> CStrings(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) {
    pointers.push_back(const_cast<char*>(string.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

absl::Status CheckDescriptors(const std::vector<std::pair<int, int>>& descriptors) {
  std::array<bool, kMaxChildDescriptor + 1> seen{};
  for (const auto& [from, to] : descriptors) {
    if (from < 0 || to < 0 || to > kMaxChildDescriptor || seen[to]) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot pass descriptor ", from, " as ", to, " to a child"));
    }
    seen[to] = true;
  }
  return absl::OkStatus();
}

absl::Status SpawnError(int error, const ChildOptions& options) {
  const std::string what = absl::StrCat("cannot start ", options.argv[0]);
  switch (error) {
    case EAGAIN:
    case ENOMEM:
    case EMFILE:
    case ENFILE: return absl::ResourceExhaustedError(absl::StrCat(what, ": ", strerror(error)));
    case ENOENT:
    case ENOTDIR: {
      struct stat info;
      if (!options.working_directory.empty() &&
          (stat(options.working_directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))) {
        return absl::NotFoundError(
            absl::StrCat(what, ": no directory ", options.working_directory));
      }
      return absl::NotFoundError(absl::StrCat(what, ": ", strerror(error)));
    }
    case EACCES:
    case EPERM:
    case ENOEXEC: return absl::PermissionDeniedError(absl::StrCat(what, ": ", strerror(error)));
    default: return ErrnoStatus(error, what);
  }
}

// Fails harmlessly if the child is already gone.
void Limit(pid_t pid, __rlimit_resource resource, int64_t soft, int64_t hard) {
  const rlimit limit{static_cast<rlim_t>(soft), static_cast<rlim_t>(hard)};
  prlimit(pid, resource, &limit, nullptr);
}

int64_t Nanoseconds(const timeval& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + int64_t{time.tv_usec} * 1'000;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Spawn(const ChildOptions& options) {
  if (options.argv.empty()) {
    return absl::InvalidArgumentError("a child needs a program");
  }
  KC_RETURN_IF_ERROR(CheckDescriptors(options.descriptors));

  DescriptorSet temporary;
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    return SpawnError(errno, options);
  }
  temporary.Own(pipe_fds[0]);
  temporary.Own(pipe_fds[1]);
  if (fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK) != 0) {  // only the read end
    return SpawnError(errno, options);
  }

  // First copies every source to a number above all targets, so that no dup2 in the child
  // overwrites the source of a later one.
  std::vector<std::pair<int, int>> plan = options.descriptors;
  for (const int standard : {STDOUT_FILENO, STDERR_FILENO}) {
    if (std::none_of(plan.begin(), plan.end(),
                     [&](const auto& entry) { return entry.second == standard; })) {
      plan.emplace_back(pipe_fds[1], standard);
    }
  }
  for (auto& [from, to] : plan) {
    from = fcntl(from, F_DUPFD_CLOEXEC, kMaxChildDescriptor + 1);
    if (from < 0) {
      return errno == EBADF
                 ? absl::InvalidArgumentError(absl::StrCat("the descriptor to pass as ", to, " to ",
                                                           options.argv[0], " is not open"))
                 : SpawnError(errno, options);
    }
    temporary.Own(from);
  }

  SpawnPlan spawn;
  KC_RETURN_IF_ERROR(spawn.SetDescriptors(plan));
  if (!options.working_directory.empty()) {
    KC_RETURN_IF_ERROR(spawn.SetDirectory(options.working_directory));
  }

  const std::vector<char*> argv = CStrings(options.argv);
  const std::vector<char*> environment = CStrings(options.environment);
  pid_t pid = -1;
  if (const int error = posix_spawnp(&pid, argv[0], spawn.actions(), spawn.attributes(),
                                     argv.data(), environment.data());
      error != 0) {
    return SpawnError(error, options);
  }
  Limit(pid, RLIMIT_CORE, 0, 0);
  if (options.max_address_space_bytes > 0) {
    Limit(pid, RLIMIT_AS, options.max_address_space_bytes, options.max_address_space_bytes);
  }
  if (options.max_cpu_seconds > 0) {
    // The soft limit sends a signal that can be caught; one second later the hard limit kills.
    Limit(pid, RLIMIT_CPU, options.max_cpu_seconds, options.max_cpu_seconds + 1);
  }
  if (options.max_file_bytes > 0) {
    Limit(pid, RLIMIT_FSIZE, options.max_file_bytes, options.max_file_bytes);
  }

  const int pid_fd = pidfd_open(pid, 0);
  if (pid_fd < 0) {
    const int error = errno;
    kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return SpawnError(error, options);
  }
  temporary.Release(pipe_fds[0]);
  return std::unique_ptr<ChildProcess>(new ChildProcess(
      options.max_output_bytes, options.kept_output_bytes, pid, pipe_fds[0], pid_fd));
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Adopt(pid_t pid, int output_fd,
                                                                  const ChildOptions& options) {
  // The child does the same, and one of the two is first.
  setpgid(pid, pid);
  const int pid_fd = pidfd_open(pid, 0);
  if (pid_fd < 0) {
    const int error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    close(output_fd);
    return absl::ResourceExhaustedError(absl::StrCat("pidfd_open: ", std::strerror(error)));
  }
  fcntl(output_fd, F_SETFL, fcntl(output_fd, F_GETFL) | O_NONBLOCK);
  return std::unique_ptr<ChildProcess>(new ChildProcess(
      options.max_output_bytes, options.kept_output_bytes, pid, output_fd, pid_fd));
}

ChildProcess::~ChildProcess() {
  if (!ended_) {
    Kill();
    Reap();
  }
}

ChildExit ChildProcess::Wait(int64_t timeout_ns) {
  const int64_t start_ns = Clock::Real().MonotonicNs();
  const int64_t deadline_ns = timeout_ns > std::numeric_limits<int64_t>::max() - start_ns
                                  ? std::numeric_limits<int64_t>::max()
                                  : start_ns + timeout_ns;
  while (!Poll()) {
    const int64_t left_ns = deadline_ns - Clock::Real().MonotonicNs();
    if (left_ns <= 0) {
      exit_.timed_out = true;
      Kill();
      Reap();
      break;
    }
    std::array<pollfd, 2> fds = {pollfd{pid_fd_, POLLIN, 0}, pollfd{output_fd_, POLLIN, 0}};
    const timespec timeout{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
    ppoll(fds.data(), fds.size(), &timeout, nullptr);  // EINTR: the loop checks again
  }
  return exit_;
}

int64_t ChildProcess::CpuNs() const { return ended_ ? 0 : ProcessCpuNs(pid_); }

bool ChildProcess::Poll() {
  if (ended_) {
    return true;
  }
  DrainOutput();
  pollfd fd{pid_fd_, POLLIN, 0};
  if (poll(&fd, 1, 0) > 0) {
    Reap();
  }
  return ended_;
}

void ChildProcess::Kill() {
  // Until the child is reaped its pid cannot be reused, so it names this group.
  if (!ended_) {
    kill(-pid_, SIGKILL);
  }
}

void ChildProcess::DrainOutput() {
  // Reads several times the default capacity of a pipe, but not forever: the caller has a deadline,
  // and a process outside the group may hold the other end.
  std::array<char, 64 << 10> buffer;
  for (int round = 0; round < 16 && output_fd_ >= 0; ++round) {
    const ssize_t got = read(output_fd_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0 && errno == EAGAIN) {
      return;
    }
    if (got <= 0) {
      CloseOutput();
      return;
    }
    output_bytes_ += got;
    output_.append(buffer.data(), static_cast<size_t>(got));
    if (std::ssize(output_) > kept_output_bytes_) {
      output_.erase(0, output_.size() - static_cast<size_t>(kept_output_bytes_));
    }
    if (output_bytes_ > max_output_bytes_) {
      exit_.output_limit = true;
      Kill();
      CloseOutput();
    }
  }
}

void ChildProcess::CloseOutput() {
  if (output_fd_ >= 0) {
    close(output_fd_);
    output_fd_ = -1;
  }
}

void ChildProcess::Reap() {
  siginfo_t info{};
  while (waitid(P_PIDFD, static_cast<id_t>(pid_fd_), &info, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  Kill();  // processes the child left behind, while its pid is still reserved
  int status = 0;
  rusage usage{};
  while (wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  ended_ = true;
  // If this process is the first in its PID namespace, the killed orphans are now its children.
  while (waitpid(-pid_, nullptr, 0) > 0 || errno == EINTR) {
  }
  DrainOutput();
  CloseOutput();
  close(pid_fd_);
  pid_fd_ = -1;

  exit_.exited = WIFEXITED(status);
  exit_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  exit_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  exit_.timed_out = exit_.timed_out && !exit_.exited;  // it may have ended just before
  exit_.output = output_;
  exit_.cpu_ns = Nanoseconds(usage.ru_utime) + Nanoseconds(usage.ru_stime);
  exit_.max_resident_bytes = int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace kernelcast
