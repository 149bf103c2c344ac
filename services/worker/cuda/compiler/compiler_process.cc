#include "services/worker/cuda/compiler/compiler_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/utf8.h"

namespace kernelcast::worker {
namespace {

// Maximum delay until a stopped token or excessive output is noticed.
constexpr int kLookMs = 5;
constexpr int64_t kKeptOutputBytes = 4096;
// Compilers yield to what is being timed.
constexpr int kNice = 10;
constexpr int64_t kNsPerSecond = 1'000'000'000;
// Wall time that an answer may take: this for each unit of processor time, and a minute. Compilers
// have a low priority.
constexpr int64_t kWallPerCpu = 10;
constexpr int64_t kMoreWallNs = 60 * kNsPerSecond;

struct Socket {
  int fd = -1;
  ~Socket() {
    if (fd >= 0) {
      close(fd);
    }
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<CompilerProcess>> CompilerProcess::Start(
    const CompilerProcessOptions& options, int headers_fd, const CancelToken& cancel) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot make a socket: ", std::strerror(errno)));
  }
  Socket ours{fds[0]};
  const Socket theirs{fds[1]};
  ChildOptions child;
  child.argv = {options.program, options.toolkit.nvrtc_library, options.toolkit.nvrtc_builtins,
                absl::StrCat(options.uid), absl::StrCat(options.max_memory_bytes)};
  child.environment = {"LC_ALL=C"};
  child.working_directory = "/";
  child.descriptors = {{theirs.fd, compiler_wire::kSocketFd},
                       {headers_fd, compiler_wire::kHeadersFd}};
  child.max_output_bytes = options.max_output_bytes;
  child.kept_output_bytes = kKeptOutputBytes;
  auto spawned = ChildProcess::Spawn(child);
  if (!spawned.ok()) {
    return absl::UnavailableError(spawned.status().message());
  }
  std::unique_ptr<CompilerProcess> process(new CompilerProcess(options));
  process->child_ = *std::move(spawned);
  std::swap(process->socket_fd_, ours.fd);
  fcntl(process->socket_fd_, F_SETFL, O_NONBLOCK);
  setpriority(PRIO_PROCESS, static_cast<id_t>(process->child_->pid()), kNice);

  std::string content;
  Budget budget{options.start_timeout_ns, options.start_timeout_ns};
  const End end = process->Receive(budget, cancel, content);
  KC_RETURN_IF_ERROR(end == End::kStopped ? cancel.Check() : absl::OkStatus());
  if (end != End::kAnswered) {
    return absl::UnavailableError(
        absl::StrCat(options.program, end == End::kStuck ? " does not answer" : " failed: ",
                     end == End::kStuck ? "" : process->CauseOfDeath()));
  }
  auto hello = compiler_wire::Hello::Decode(content);
  if (!hello) {
    return absl::UnavailableError(absl::StrCat(options.program, " is of another version"));
  }
  if (!hello->error.empty()) {
    return absl::UnavailableError(hello->error);
  }
  process->hello_ = *std::move(hello);
  return process;
}

CompilerProcess::~CompilerProcess() {
  if (socket_fd_ >= 0) {
    close(socket_fd_);
  }
}

CompilerProcess::End CompilerProcess::Await(short events, Budget& budget,
                                            const CancelToken& cancel) {
  for (;;) {
    pollfd ready{socket_fd_, events, 0};
    if (poll(&ready, 1, kLookMs) > 0) {
      return End::kAnswered;
    }
    if (cancel.stopped()) {
      return End::kStopped;
    }
    if (child_->Poll()) {
      return End::kDied;
    }
    if (child_->CpuNs() > budget.cpu_ns) {
      return End::kLate;
    }
    if (budget.waited.Look() > budget.wall_ns) {
      return End::kStuck;
    }
    if (peak_resident_bytes() > options_.max_memory_bytes) {
      return End::kTooLarge;
    }
  }
}

CompilerProcess::End CompilerProcess::Send(const std::string& frame, Budget& budget,
                                           const CancelToken& cancel) {
  for (size_t sent = 0; sent < frame.size();) {
    const ssize_t count = send(socket_fd_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (count >= 0) {
      sent += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {
      if (const End end = Await(POLLOUT, budget, cancel); end != End::kAnswered) {
        return end;
      }
    } else if (errno != EINTR) {
      return End::kDied;
    }
  }
  return End::kAnswered;
}

CompilerProcess::End CompilerProcess::Receive(Budget& budget, const CancelToken& cancel,
                                              std::string& content) {
  uint64_t size = 0;
  char* into = reinterpret_cast<char*>(&size);
  uint64_t missing = sizeof(size);
  bool have_size = false;
  for (;;) {
    while (missing > 0) {
      const ssize_t count = read(socket_fd_, into, missing);
      if (count > 0) {
        into += count;
        missing -= static_cast<uint64_t>(count);
      } else if (count == 0) {
        return End::kDied;
      } else if (errno == EAGAIN) {
        if (const End end = Await(POLLIN, budget, cancel); end != End::kAnswered) {
          return end;
        }
      } else if (errno != EINTR) {
        return End::kDied;
      }
    }
    if (have_size) {
      return End::kAnswered;
    }
    if (size > static_cast<uint64_t>(options_.max_reply_bytes)) {
      return End::kTooMuch;
    }
    have_size = true;
    content.resize(size);
    into = content.data();
    missing = size;
  }
}

void CompilerProcess::AllowCpu(int64_t limit_ns) {
  rlimit limit{};
  if (prlimit(child_->pid(), RLIMIT_CPU, nullptr, &limit) != 0) {
    return;
  }
  limit.rlim_cur = std::min<rlim_t>(
      limit.rlim_max, static_cast<rlim_t>((child_->CpuNs() + limit_ns) / kNsPerSecond + 3));
  prlimit(child_->pid(), RLIMIT_CPU, &limit, nullptr);
}

template <class Decode>
CompilerProcess::End CompilerProcess::Exchange(const std::string& frame, int64_t limit_ns,
                                               const CancelToken& cancel, Decode decode) {
  AllowCpu(limit_ns);
  Budget budget{child_->CpuNs() + limit_ns, kWallPerCpu * limit_ns + kMoreWallNs};
  std::string content;
  End end = Send(frame, budget, cancel);
  if (end == End::kAnswered) {
    end = Receive(budget, cancel, content);
  }
  if (end == End::kAnswered) {
    if (decode(content)) {
      return end;
    }
    end = End::kDied;  // malformed reply
  }
  child_->Kill();
  if (end == End::kDied && child_->Wait(kNsPerSecond).output_limit) {
    end = End::kTooMuch;
  }
  return end;
}

CompilerProcess::End CompilerProcess::Compile(const compiler_wire::CompileRequest& request,
                                              int64_t limit_ns, const CancelToken& cancel,
                                              compiler_wire::CompileReply& reply) {
  ++compiles_;
  const End end = Exchange(request.Encode(), limit_ns, cancel, [&](const std::string& content) {
    auto decoded = compiler_wire::CompileReply::Decode(content);
    if (decoded) reply = *std::move(decoded);
    return decoded.has_value();
  });
  if (end == End::kAnswered && reply.code == compiler_wire::ReplyCode::kCompiled &&
      !request.program.empty()) {
    programs_.push_back(request.program);
    if (programs_.size() > compiler_wire::kKeptPrograms) programs_.pop_front();
  }
  return end;
}

bool CompilerProcess::Keeps(const std::string& program) const {
  return std::find(programs_.begin(), programs_.end(), program) != programs_.end();
}

CompilerProcess::End CompilerProcess::Simulate(const compiler_wire::SimulateRequest& request,
                                               int64_t limit_ns, const CancelToken& cancel,
                                               compiler_wire::SimulateReply& reply) {
  return Exchange(request.Encode(), limit_ns, cancel, [&](const std::string& content) {
    auto decoded = compiler_wire::SimulateReply::Decode(content);
    if (decoded) reply = *std::move(decoded);
    return decoded.has_value();
  });
}

std::string CompilerProcess::CauseOfDeath() {
  const ChildExit exit = child_->Wait(0);
  const std::string output = SanitizeUtf8(TruncateUtf8Front(exit.output, kKeptOutputBytes));
  return absl::StrCat(exit.exited ? absl::StrCat("exit code ", exit.exit_code)
                                  : absl::StrCat("signal ", exit.signal),
                      output.empty() ? "" : ": ", output);
}

int64_t CompilerProcess::peak_resident_bytes() const {
  std::ifstream file(absl::StrCat("/proc/", child_->pid(), "/status"));
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("VmHWM:", 0) == 0) {
      return strtoll(line.c_str() + 6, nullptr, 10) * 1024;
    }
  }
  return 0;
}

}  // namespace kernelcast::worker
