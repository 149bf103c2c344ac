#ifndef KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_COMPILER_PROCESS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_COMPILER_PROCESS_H_

#include <time.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/awake_time.h"
#include "common/process/child_process.h"
#include "services/worker/core/cancel.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/compiler/wire.h"

namespace kernelcast::worker {

struct CompilerProcessOptions {
  std::string program;  // path of kernelcast-cuda-compiler
  CudaToolkit toolkit;
  // User of the process when the worker is root; 0: stay root.
  uint32_t uid = 0;
  int64_t start_timeout_ns = 60'000'000'000;
  int64_t max_memory_bytes = int64_t{4} << 30;  // resident
  int64_t max_reply_bytes = 64 << 20;
  int64_t max_output_bytes = 1 << 20;
};

// The worker's handle of one kernelcast-cuda-compiler process, which it keeps warm. The destructor
// kills the process. Not thread-safe.
class CompilerProcess {
 public:
  // Starts the process and waits until it can compile. UNAVAILABLE: it cannot be started or cannot
  // compile; the message says why. CANCELLED, DEADLINE_EXCEEDED: the token was stopped.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CompilerProcess>> Start(
      const CompilerProcessOptions& options, int headers_fd, const CancelToken& cancel);
  ~CompilerProcess();
  CompilerProcess(const CompilerProcess&) = delete;
  CompilerProcess& operator=(const CompilerProcess&) = delete;

  const compiler_wire::Hello& hello() const { return hello_; }
  int compiles() const { return compiles_; }
  // Whether the process probably keeps the program of this name.
  bool Keeps(const std::string& program) const;

  enum class End {
    kAnswered,
    kLate,      // used more processor time than the limit
    kStuck,     // neither answered nor used its time within ten times the limit and a minute
    kTooMuch,   // the reply or the output was too large
    kTooLarge,  // used too much memory
    kDied,
    kStopped,  // the token was stopped
  };
  // `limit_ns` is processor time. After any result other than kAnswered the process is unusable.
  End Compile(const compiler_wire::CompileRequest& request, int64_t limit_ns,
              const CancelToken& cancel, compiler_wire::CompileReply& reply);

  // Like Compile, for the virtual GPU.
  End Simulate(const compiler_wire::SimulateRequest& request, int64_t limit_ns,
               const CancelToken& cancel, compiler_wire::SimulateReply& reply);

  // The signal that ended a process that died, or 0.
  int DeathSignal() { return child_->Wait(0).signal; }

  // Describes a process that died, for the log: "signal 11", "exit code 1", and the end of its
  // output.
  std::string CauseOfDeath();

  // Whether the process is still running.
  bool Alive() { return !child_->Poll(); }

  // Peak resident memory.
  int64_t peak_resident_bytes() const;

 private:
  explicit CompilerProcess(const CompilerProcessOptions& options) : options_(options) {}

  // Sends one request and passes the content of the reply to `decode`, which returns false if it is
  // malformed.
  template <class Decode>
  End Exchange(const std::string& frame, int64_t limit_ns, const CancelToken& cancel,
               Decode decode);
  struct Budget {
    int64_t cpu_ns;  // value of the process's clock that ends it
    int64_t wall_ns;
    AwakeTime waited = AwakeTime();
  };
  End Send(const std::string& frame, Budget& budget, const CancelToken& cancel);
  End Receive(Budget& budget, const CancelToken& cancel, std::string& content);
  // Waits until the socket is ready, the process ends or the budget is used up.
  End Await(short events, Budget& budget, const CancelToken& cancel);
  // Extends the limit of processor time by this much. The kernel kills the process beyond it.
  void AllowCpu(int64_t limit_ns);

  const CompilerProcessOptions options_;
  std::unique_ptr<ChildProcess> child_;
  int socket_fd_ = -1;
  compiler_wire::Hello hello_;
  int compiles_ = 0;
  std::deque<std::string> programs_;  // compiled last, the oldest first
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_COMPILER_COMPILER_PROCESS_H_
