#include "services/worker/cuda/language/compile_server/compile_server.h"

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

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/descriptor.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/process/child_process.h"
#include "common/process/process_limit.h"
#include "common/process/send_descriptors.h"
#include "services/worker/cuda/compiler/wire.h"
#include "services/worker/sandbox/interpreter_filter.h"
#include "services/worker/sandbox/system_call_filter.h"

namespace kernelcast::worker {

extern const char* const kCompileServerProgram;
extern const char* const kCompilerProbeProgram;

namespace {

using compiler_wire::Decoder;
using compiler_wire::Encoder;

// What a child answers with, as in compile_server.py.
enum class Answer : uint64_t {
  kCompiled = 0,
  kRefused = 1,    // the source does not run or compile
  kAdmission = 2,  // it does not fit the problem or the launches
  kOutOfMemory = 3,
  kBroken = 4,  // the child could not restrict itself
};

struct Reply {
  Answer answer = Answer::kBroken;
  std::string log;
  std::string fields;

  static std::optional<Reply> Decode(std::string_view content) {
    Decoder decoder(content);
    Reply reply;
    const uint64_t answer = decoder.Number();
    reply.log = SanitizeUtf8(decoder.Text());
    reply.fields = decoder.Text();
    if (!decoder.done() || answer > static_cast<uint64_t>(Answer::kBroken)) return std::nullopt;
    reply.answer = static_cast<Answer>(answer);
    return reply;
  }
};

constexpr int kAttempts = 2;
constexpr size_t kMaxLogBytes = 64 << 10;
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
// Whether the time for a wait is over. Looked at every few milliseconds.
using IsLate = absl::FunctionRef<bool()>;

// Late after this much wall time.
class LateAfter {
 public:
  explicit LateAfter(int64_t limit_ns) : deadline_ns_(Clock::Real().MonotonicNs() + limit_ns) {}
  bool operator()() const { return Clock::Real().MonotonicNs() > deadline_ns_; }

 private:
  const int64_t deadline_ns_;
};

Wait AwaitSocket(int fd, short events, int pid_fd, IsLate late, const CancelToken& cancel) {
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
    if (late()) return Wait::kLate;
  }
}

Wait SendAll(int fd, std::string_view bytes, int pid_fd, IsLate late, const CancelToken& cancel) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      const Wait wait = AwaitSocket(fd, POLLOUT, pid_fd, late, cancel);
      if (wait != Wait::kReady) return wait;
    } else if (errno != EINTR) {
      return Wait::kEnded;
    }
  }
  return Wait::kReady;
}

Wait ReceiveAll(int fd, char* to, size_t size, int pid_fd, IsLate late, const CancelToken& cancel) {
  while (size > 0) {
    const ssize_t got = recv(fd, to, size, MSG_DONTWAIT);
    if (got > 0) {
      to += got;
      size -= static_cast<size_t>(got);
    } else if (got == 0) {
      return Wait::kEnded;
    } else if (errno == EAGAIN) {
      const Wait wait = AwaitSocket(fd, POLLIN, pid_fd, late, cancel);
      if (wait != Wait::kReady) return wait;
    } else if (errno != EINTR) {
      return Wait::kEnded;
    }
  }
  return Wait::kReady;
}

// Receives a frame's content, which stays empty if it is larger than `max_bytes`.
Wait ReceiveFrame(int fd, int64_t max_bytes, int pid_fd, IsLate late, const CancelToken& cancel,
                  std::string& content, bool& too_large) {
  uint64_t size = 0;
  too_large = false;
  const Wait wait =
      ReceiveAll(fd, reinterpret_cast<char*>(&size), sizeof(size), pid_fd, late, cancel);
  if (wait != Wait::kReady) return wait;
  if (size > static_cast<uint64_t>(max_bytes)) {
    too_large = true;
    return Wait::kReady;
  }
  content.resize(size);
  return ReceiveAll(fd, content.data(), size, pid_fd, late, cancel);
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

// A process that has imported the compiler, and forks. Thread-safe.
class CompileServer::Process {
 public:
  // UNAVAILABLE: it cannot be started, or cannot import the compiler.
  static absl::StatusOr<std::shared_ptr<Process>> Start(const CompileServerOptions& options,
                                                        const CancelToken& cancel);

  bool Alive() {
    const std::lock_guard lock(mutex_);
    return !process_->Poll();
  }

  // As CompileServer::Compile. UNAVAILABLE: try again.
  absl::StatusOr<CompileServer::Outcome> Compile(std::string_view fields,
                                                 const CancelToken& cancel);

 private:
  explicit Process(const CompileServerOptions& options)
      : options_(options), filter_(ChildFilter()) {}

  absl::Status Ended() const {
    return absl::UnavailableError(absl::StrCat("the ", options_.compiler, " compiler has ended"));
  }
  // Has the process fork a child that uses the two descriptors. Sets `pid` and returns a descriptor
  // of the child.
  absl::StatusOr<int> Fork(int socket_fd, int output_fd, pid_t& pid);

  const CompileServerOptions& options_;  // of the server, which owns this
  const std::string filter_;
  std::unique_ptr<WorkFolder> folder_;  // constant after Start

  std::mutex mutex_;
  // Protected by mutex_.
  std::unique_ptr<ChildProcess> process_;
  Descriptor control_;
};

absl::StatusOr<std::shared_ptr<CompileServer::Process>> CompileServer::Process::Start(
    const CompileServerOptions& options, const CancelToken& cancel) {
  std::shared_ptr<Process> server(new Process(options));
  const CompilerSandbox& sandbox = options.sandbox;
  const PythonInterpreter& python = options.python;
  KC_ASSIGN_OR_RETURN(WorkFolder folder, WorkFolder::Make(options.work_directory, sandbox.uid));
  server->folder_ = std::make_unique<WorkFolder>(std::move(folder));
  const std::string& path = server->folder_->path();
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot make a socket: ", std::strerror(errno)));
  }
  server->control_.reset(fds[0]);
  const Descriptor theirs(fds[1]);
  ChildOptions child;
  child.argv = {sandbox.program, absl::StrCat(sandbox.uid), path};
  child.argv.insert(child.argv.end(), python.read_only.begin(), python.read_only.end());
  child.argv.insert(child.argv.end(), {"--", python.program, "-I", "-S", "-W", "ignore"});
  const std::vector<std::string> program = ProgramArguments(
      absl::StrCat(kCompileServerProgram, options.program, "\nserve_compiler()\n"));
  child.argv.insert(child.argv.end(), program.begin(), program.end());
  child.argv.insert(child.argv.end(), python.packages.begin(), python.packages.end());
  child.environment = {"LC_ALL=C.UTF-8", absl::StrCat("HOME=", path), absl::StrCat("TMPDIR=", path),
                       absl::StrCat("TRITON_CACHE_DIR=", path, "/cache")};
  child.working_directory = path;
  child.descriptors = {{theirs.get(), kControlFd}};
  child.kept_output_bytes = kKeptOutputBytes;
  KC_ASSIGN_OR_RETURN(server->process_, ChildProcess::Spawn(child));
  setpriority(PRIO_PROCESS, static_cast<id_t>(server->process_->pid()), kCompileNice);

  const Descriptor pid_fd(pidfd_open(server->process_->pid(), 0));
  const LateAfter late(options.start_timeout_ns);
  std::string content;
  bool too_large = false;
  const Wait wait = ReceiveFrame(server->control_.get(), kMaxHelloBytes, pid_fd.get(), late, cancel,
                                 content, too_large);
  if (wait == Wait::kStopped) return cancel.Check();
  Decoder decoder(content);
  const std::string error(decoder.Text());
  if (wait != Wait::kReady || too_large || !decoder.done()) {
    const ChildExit exit = server->process_->Wait(wait == Wait::kEnded ? kNsPerSecond : 0);
    return absl::UnavailableError(absl::StrCat(
        "the ", options.compiler, " compiler ", wait == Wait::kLate ? "does not start" : "ended: ",
        SanitizeUtf8(TruncateUtf8Front(exit.output, kKeptOutputBytes))));
  }
  if (!error.empty()) return absl::UnavailableError(error);
  return server;
}

absl::StatusOr<int> CompileServer::Process::Fork(int socket_fd, int output_fd, pid_t& pid) {
  const std::lock_guard lock(mutex_);
  char byte = 1;
  const iovec data{&byte, 1};
  const int passed[] = {socket_fd, output_fd};
  uint64_t answer = 0;
  // A short wait that must not be interrupted: the next call would read this answer.
  const CancelToken never;
  const LateAfter late(options_.fork_timeout_ns);
  if (!SendDescriptors(control_.get(), {&data, 1}, passed) ||
      ReceiveAll(control_.get(), reinterpret_cast<char*>(&answer), sizeof(answer), -1, late,
                 never) != Wait::kReady ||
      answer <= 1 || answer > INT32_MAX) {
    process_->Kill();
    return Ended();
  }
  pid = static_cast<pid_t>(answer);
  const int pid_fd = pidfd_open(pid, 0);
  if (pid_fd < 0) {
    process_->Kill();
    return absl::UnavailableError(
        absl::StrCat("cannot watch the ", options_.compiler, " compiler: ", std::strerror(errno)));
  }
  return pid_fd;
}

absl::StatusOr<CompileServer::Outcome> CompileServer::Process::Compile(std::string_view fields,
                                                                       const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(cancel.Check());
  const int64_t max_cpu_seconds = options_.timeout_ns / kNsPerSecond + 1;
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot make a socket: ", std::strerror(errno)));
  }
  const Descriptor ours(fds[0]);
  Descriptor theirs(fds[1]);
  const Descriptor output(memfd_create("compiler-output", MFD_CLOEXEC));
  if (output.get() < 0) {
    return absl::UnavailableError(absl::StrCat("cannot make a file: ", std::strerror(errno)));
  }
  pid_t pid = 0;
  KC_ASSIGN_OR_RETURN(const int pid_fd, Fork(theirs.get(), output.get(), pid));
  const KilledAtEnd child(pid_fd);
  theirs.reset();

  // On a busy machine the compiler may get no processor, which is not the source's fault.
  ProcessLimit limit(pid, options_.timeout_ns, ProcessLimit::Watch::kAlways);
  const auto late = [&limit] { return limit.Exceeded(); };
  std::string content;
  bool too_large = false;
  Encoder request;
  request.Number(static_cast<uint64_t>(options_.max_memory_bytes))
      .Number(static_cast<uint64_t>(max_cpu_seconds))
      .Number(static_cast<uint64_t>(options_.max_output_bytes))
      .Text(filter_)
      .Text(fields);
  Wait wait = SendAll(ours.get(), request.Take(), pid_fd, late, cancel);
  if (wait == Wait::kReady) {
    wait = ReceiveFrame(ours.get(), options_.max_reply_bytes, pid_fd, late, cancel, content,
                        too_large);
  }
  if (wait == Wait::kStopped) return cancel.Check();
  const auto refused = [](CompileStage stage, std::string_view log) {
    return Outcome(CompileError{stage, std::string(TruncateUtf8(log, kMaxLogBytes))});
  };
  std::optional<Reply> reply;
  if (wait == Wait::kReady && !too_large) reply = Reply::Decode(content);
  if (reply) {
    switch (reply->answer) {
      case Answer::kCompiled: return Outcome(std::move(reply->fields));
      case Answer::kAdmission: return refused(CompileStage::kAdmission, reply->log);
      case Answer::kRefused: {
        // MLIR, LLVM and TVM print their errors.
        const std::string printed = OutputOf(output.get());
        if (!printed.empty()) absl::StrAppend(&reply->log, "\n", printed);
        return refused(CompileStage::kCompiler, reply->log);
      }
      case Answer::kOutOfMemory:
        return refused(CompileStage::kLimit, "stopped: the compiler exceeded its memory limit");
      case Answer::kBroken:
        return absl::UnavailableError(absl::StrCat(
            "the ", options_.compiler, " compiler cannot enter its sandbox: ", reply->log));
    }
  }
  if (!Alive()) return Ended();
  // The process reaps the child once this socket is closed.
  if (wait == Wait::kEnded && KilledByMachine(pid, max_cpu_seconds)) {
    return absl::UnavailableError(absl::StrCat("the ", options_.compiler, " compiler was killed"));
  }
  return refused(CompileStage::kLimit,
                 too_large ? std::string("stopped: the compiler's output is too large")
                 : wait == Wait::kLate
                     ? absl::StrCat("stopped: the compiler ran for more than ",
                                    options_.timeout_ns / kNsPerSecond, " s")
                     : absl::StrCat("the compiler crashed or exceeded its memory or time limit\n",
                                    OutputOf(output.get())));
}

CompileServer::CompileServer(CompileServerOptions options) : options_(std::move(options)) {}
CompileServer::~CompileServer() = default;

absl::StatusOr<std::unique_ptr<CompileServer>> CompileServer::Start(CompileServerOptions options,
                                                                    const std::string& python,
                                                                    const CancelToken& cancel) {
  if (python.empty()) {
    return absl::UnavailableError(
        absl::StrCat("no Python interpreter with ", options.compiler, " is configured (--python)"));
  }
  std::string package = options.compiler;
  absl::AsciiStrToLower(&package);
  const std::string probe = absl::StrCat(options.program, "\n", kCompilerProbeProgram);
  auto found = ProbeInterpreter(python, probe.c_str(), package);
  if (!found.ok()) return absl::UnavailableError(found.status().message());
  options.python = *std::move(found);
  std::unique_ptr<CompileServer> server(new CompileServer(std::move(options)));
  KC_RETURN_IF_ERROR(server->Running(cancel).status());
  return server;
}

absl::StatusOr<std::shared_ptr<CompileServer::Process>> CompileServer::Running(
    const CancelToken& cancel) {
  // Others wait for the one that starts it.
  const std::lock_guard lock(mutex_);
  if (process_ != nullptr && process_->Alive()) return process_;
  if (process_ != nullptr) {
    Log(LogLevel::kWarning, "a compiler has ended; restarting it",
        {{"compiler", options_.compiler}});
  }
  KC_ASSIGN_OR_RETURN(process_, Process::Start(options_, cancel));
  return process_;
}

absl::Status CompileServer::Warm(const CancelToken& cancel) { return Running(cancel).status(); }

absl::StatusOr<CompileServer::Outcome> CompileServer::Compile(std::string_view fields,
                                                              const CancelToken& cancel) {
  absl::StatusOr<Outcome> outcome;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    KC_ASSIGN_OR_RETURN(const std::shared_ptr<Process> process, Running(cancel));
    outcome = process->Compile(fields, cancel);
    if (!absl::IsUnavailable(outcome.status())) break;
  }
  return outcome;
}

}  // namespace kernelcast::worker
