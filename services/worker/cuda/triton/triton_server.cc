#include "services/worker/cuda/triton/triton_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

// glibc 2.36 does not declare its functions extern "C"; later versions do.
extern "C" {
#include <sys/pidfd.h>
}

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/process/send_descriptors.h"
#include "services/worker/sandbox/interpreter_filter.h"
#include "services/worker/sandbox/system_call_filter.h"

namespace kernelcast::worker {
namespace {

constexpr int kControlFd = 3;  // in the server, and the socket in its children
// Maximum delay until a stopped token is noticed.
constexpr int kLookMs = 5;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kMaxHelloBytes = 64 << 10;
constexpr size_t kKeptOutputBytes = 4096;
constexpr off_t kQuotedOutputBytes = 48 << 10;

// A child may only compute, use threads, read visible files, and write to its socket and its
// output. Denied calls fail, because Python and LLVM try some that they do not need.
std::string ChildFilter() {
  sandbox::SystemCallFilter filter(SCMP_ACT_ERRNO(EPERM));
  sandbox::AllowInterpreter(filter);
  filter.Allow({SCMP_SYS(write), SCMP_SYS(writev)}, {SCMP_A0(SCMP_CMP_EQ, kControlFd)});
  constexpr scmp_datum_t kThread = CLONE_THREAD | CLONE_VM | CLONE_SIGHAND;
  filter.Allow({SCMP_SYS(clone)}, {SCMP_A0(SCMP_CMP_MASKED_EQ, kThread, kThread)});
  // A filter cannot see the flags of clone3: fail as on an older kernel.
  filter.Fail(ENOSYS, {SCMP_SYS(clone3)});
  return filter.Instructions();
}

enum class Wait { kReady, kEnded, kLate, kStopped };

// Waits until the socket is ready, the process of `pid_fd` (if not negative) has ended, the
// deadline passes, or the token is stopped.
Wait AwaitSocket(int fd, short events, int pid_fd, int64_t deadline_ns, const CancelToken& cancel) {
  for (;;) {
    pollfd ready[2] = {{fd, events, 0}, {pid_fd, POLLIN, 0}};
    poll(ready, 2, kLookMs);
    if ((ready[0].revents & events) != 0) return Wait::kReady;
    if (ready[0].revents != 0 || ready[1].revents != 0) {
      // The process may have answered and ended between the two looks.
      ready[0].revents = 0;
      poll(ready, 1, 0);
      return (ready[0].revents & events) != 0 ? Wait::kReady : Wait::kEnded;
    }
    if (cancel.stopped()) return Wait::kStopped;
    if (Clock::Real().MonotonicNs() > deadline_ns) return Wait::kLate;
  }
}

Wait SendAll(int fd, std::string_view bytes, int pid_fd, int64_t deadline_ns,
             const CancelToken& cancel) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      const Wait wait = AwaitSocket(fd, POLLOUT, pid_fd, deadline_ns, cancel);
      if (wait != Wait::kReady) return wait;
    } else if (errno != EINTR) {
      return Wait::kEnded;
    }
  }
  return Wait::kReady;
}

Wait ReceiveAll(int fd, char* to, size_t size, int pid_fd, int64_t deadline_ns,
                const CancelToken& cancel) {
  while (size > 0) {
    const ssize_t got = recv(fd, to, size, MSG_DONTWAIT);
    if (got > 0) {
      to += got;
      size -= static_cast<size_t>(got);
    } else if (got == 0) {
      return Wait::kEnded;
    } else if (errno == EAGAIN) {
      const Wait wait = AwaitSocket(fd, POLLIN, pid_fd, deadline_ns, cancel);
      if (wait != Wait::kReady) return wait;
    } else if (errno != EINTR) {
      return Wait::kEnded;
    }
  }
  return Wait::kReady;
}

// Receives a frame's content, which stays empty if it is larger than `max_bytes`.
Wait ReceiveFrame(int fd, int64_t max_bytes, int pid_fd, int64_t deadline_ns,
                  const CancelToken& cancel, std::string& content, bool& too_large) {
  uint64_t size = 0;
  too_large = false;
  const Wait wait =
      ReceiveAll(fd, reinterpret_cast<char*>(&size), sizeof(size), pid_fd, deadline_ns, cancel);
  if (wait != Wait::kReady) return wait;
  if (size > static_cast<uint64_t>(max_bytes)) {
    too_large = true;
    return Wait::kReady;
  }
  content.resize(size);
  return ReceiveAll(fd, content.data(), size, pid_fd, deadline_ns, cancel);
}

// Kills the process when it goes out of scope.
class KilledAtEnd {
 public:
  explicit KilledAtEnd(int pid_fd) : pid_fd_(pid_fd) {}
  ~KilledAtEnd() { pidfd_send_signal(pid_fd_.get(), SIGKILL, nullptr, 0); }
  KilledAtEnd(const KilledAtEnd&) = delete;
  KilledAtEnd& operator=(const KilledAtEnd&) = delete;

 private:
  const Descriptor pid_fd_;
};

// The end of what a child has printed.
std::string OutputOf(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return "";
  std::string output(static_cast<size_t>(std::min(info.st_size, kQuotedOutputBytes)), '\0');
  const ssize_t got = pread(fd, output.data(), output.size(), info.st_size - std::ssize(output));
  output.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return SanitizeUtf8(output);
}

// Whether a process that has ended and is not reaped yet was killed, and not for its processor
// time.
bool KilledByMachine(pid_t pid, int64_t max_cpu_seconds) {
  const auto stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = stat.ok() ? stat->rfind(") ") : std::string::npos;
  if (name_end == std::string::npos) return false;
  const std::vector<std::string> fields = absl::StrSplit(stat->substr(name_end + 2), ' ');
  // Numbers of proc(5), which begin with 1; the first field here is 3, the state.
  constexpr size_t kUserTime = 14 - 3;
  constexpr size_t kSystemTime = 15 - 3;
  constexpr size_t kExitCode = 52 - 3;
  int64_t user = 0;
  int64_t system = 0;
  int64_t status = 0;
  if (fields.size() <= kExitCode || !absl::SimpleAtoi(fields[kUserTime], &user) ||
      !absl::SimpleAtoi(fields[kSystemTime], &system) ||
      !absl::SimpleAtoi(absl::StripAsciiWhitespace(fields[kExitCode]), &status)) {
    return false;
  }
  return (status & 0x7f) == SIGKILL && user + system < max_cpu_seconds * sysconf(_SC_CLK_TCK);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TritonServer>> TritonServer::Start(TritonServerOptions options,
                                                                  const CancelToken& cancel) {
  options.sandbox.read_only = options.python.read_only;
  std::unique_ptr<TritonServer> server(new TritonServer(std::move(options)));
  const TritonServerOptions& made = server->options_;
  server->filter_ = ChildFilter();
  KC_ASSIGN_OR_RETURN(WorkFolder folder, WorkFolder::Make(made.work_directory, made.sandbox.uid));
  server->folder_ = std::make_unique<WorkFolder>(std::move(folder));
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot make a socket: ", std::strerror(errno)));
  }
  server->control_.reset(fds[0]);
  const Descriptor theirs(fds[1]);
  ChildOptions child;
  child.argv = {made.sandbox.program, absl::StrCat(made.sandbox.uid), server->folder_->path()};
  child.argv.insert(child.argv.end(), made.sandbox.read_only.begin(), made.sandbox.read_only.end());
  child.argv.insert(child.argv.end(), {"--", made.python.program, "-I", "-S", "-W", "ignore", "-c",
                                       kTritonCompileServer});
  child.argv.insert(child.argv.end(), made.python.packages.begin(), made.python.packages.end());
  child.environment = {"LC_ALL=C.UTF-8", absl::StrCat("HOME=", server->folder_->path()),
                       absl::StrCat("TRITON_CACHE_DIR=", server->folder_->path(), "/cache")};
  child.working_directory = server->folder_->path();
  child.descriptors = {{theirs.get(), kControlFd}};
  child.kept_output_bytes = kKeptOutputBytes;
  KC_ASSIGN_OR_RETURN(server->process_, ChildProcess::Spawn(child));
  setpriority(PRIO_PROCESS, static_cast<id_t>(server->process_->pid()), kCompileNice);

  const Descriptor pid_fd(pidfd_open(server->process_->pid(), 0));
  const int64_t deadline_ns = Clock::Real().MonotonicNs() + made.start_timeout_ns;
  std::string content;
  bool too_large = false;
  const Wait wait = ReceiveFrame(server->control_.get(), kMaxHelloBytes, pid_fd.get(), deadline_ns,
                                 cancel, content, too_large);
  if (wait == Wait::kStopped) return cancel.Check();
  const auto hello = TritonHello::Decode(content);
  if (wait != Wait::kReady || too_large || !hello) {
    const ChildExit exit = server->process_->Wait(wait == Wait::kEnded ? kNsPerSecond : 0);
    return absl::UnavailableError(
        absl::StrCat("the Triton compiler ", wait == Wait::kLate ? "does not start" : "ended: ",
                     SanitizeUtf8(TruncateUtf8Front(exit.output, kKeptOutputBytes))));
  }
  if (!hello->error.empty()) return absl::UnavailableError(hello->error);
  return server;
}

TritonServer::~TritonServer() = default;

bool TritonServer::Alive() {
  const std::lock_guard lock(mutex_);
  return !process_->Poll();
}

absl::StatusOr<int> TritonServer::Fork(int socket_fd, int output_fd, pid_t& pid) {
  const std::lock_guard lock(mutex_);
  char byte = 1;
  const iovec data{&byte, 1};
  const int passed[] = {socket_fd, output_fd};
  uint64_t answer = 0;
  // A short wait that must not be interrupted: the next call would read this answer.
  const CancelToken never;
  const int64_t deadline_ns = Clock::Real().MonotonicNs() + options_.fork_timeout_ns;
  if (!SendDescriptors(control_.get(), {&data, 1}, passed) ||
      ReceiveAll(control_.get(), reinterpret_cast<char*>(&answer), sizeof(answer), -1, deadline_ns,
                 never) != Wait::kReady ||
      answer <= 1 || answer > INT32_MAX) {
    process_->Kill();
    return absl::UnavailableError("the Triton compiler has ended");
  }
  pid = static_cast<pid_t>(answer);
  const int pid_fd = pidfd_open(pid, 0);
  if (pid_fd < 0) {
    process_->Kill();
    return absl::UnavailableError(
        absl::StrCat("cannot watch the Triton compiler: ", std::strerror(errno)));
  }
  return pid_fd;
}

absl::StatusOr<TritonServer::Compilation> TritonServer::Compile(TritonRequest request,
                                                                const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(cancel.Check());
  request.max_memory_bytes = static_cast<uint64_t>(options_.max_memory_bytes);
  request.max_cpu_seconds = static_cast<uint64_t>(options_.timeout_ns / kNsPerSecond + 1);
  request.max_output_bytes = static_cast<uint64_t>(options_.max_output_bytes);
  request.filter = filter_;
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot make a socket: ", std::strerror(errno)));
  }
  const Descriptor ours(fds[0]);
  Descriptor theirs(fds[1]);
  const Descriptor output(memfd_create("triton-output", MFD_CLOEXEC));
  if (output.get() < 0) {
    return absl::UnavailableError(absl::StrCat("cannot make a file: ", std::strerror(errno)));
  }
  pid_t pid = 0;
  KC_ASSIGN_OR_RETURN(const int pid_fd, Fork(theirs.get(), output.get(), pid));
  const KilledAtEnd child(pid_fd);
  theirs.reset();

  const int64_t deadline_ns = Clock::Real().MonotonicNs() + options_.timeout_ns;
  std::string content;
  bool too_large = false;
  Wait wait = SendAll(ours.get(), request.Encode(), pid_fd, deadline_ns, cancel);
  if (wait == Wait::kReady) {
    wait = ReceiveFrame(ours.get(), options_.max_reply_bytes, pid_fd, deadline_ns, cancel, content,
                        too_large);
  }
  if (wait == Wait::kStopped) return cancel.Check();
  Compilation compilation;
  std::optional<TritonReply> reply;
  if (wait == Wait::kReady && !too_large) reply = TritonReply::Decode(content);
  if (reply && reply->code == TritonCode::kBroken) {
    return absl::UnavailableError(
        absl::StrCat("the Triton compiler cannot enter its sandbox: ", reply->log));
  }
  if (reply && reply->code != TritonCode::kOutOfMemory) {
    compilation.reply = *std::move(reply);
    compilation.reply.log = SanitizeUtf8(compilation.reply.log);
    // MLIR and LLVM print their errors.
    if (compilation.reply.code == TritonCode::kRefused) {
      const std::string printed = OutputOf(output.get());
      if (!printed.empty()) absl::StrAppend(&compilation.reply.log, "\n", printed);
    }
    return compilation;
  }
  if (!Alive()) return absl::UnavailableError("the Triton compiler has ended");
  // The server reaps the child once this socket is closed.
  if (wait == Wait::kEnded && KilledByMachine(pid, static_cast<int64_t>(request.max_cpu_seconds))) {
    return absl::UnavailableError("the Triton compiler was killed");
  }
  compilation.limit = true;
  compilation.reply.code = TritonCode::kRefused;
  compilation.reply.log =
      too_large ? std::string("stopped: the compiler's output is too large")
      : reply   ? std::string("stopped: the compiler exceeded its memory limit")
      : wait == Wait::kLate
          ? absl::StrCat("stopped: the compiler ran for more than ",
                         options_.timeout_ns / kNsPerSecond, " s")
          : absl::StrCat("the compiler crashed or exceeded its memory or time limit\n",
                         OutputOf(output.get()));
  return compilation;
}

}  // namespace kernelcast::worker
