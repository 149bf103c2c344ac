#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TRITON_TRITON_SERVER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TRITON_TRITON_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/descriptor.h"
#include "common/process/child_process.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/options.h"
#include "services/worker/cuda/triton/triton_wire.h"
#include "services/worker/native/compiler_step.h"
#include "services/worker/python/interpreter.h"

namespace kernelcast::worker {

struct TritonServerOptions {
  PythonInterpreter python;
  CompilerSandbox sandbox;     // read_only is filled in
  std::string work_directory;  // an empty folder is made in it
  int64_t start_timeout_ns = 120'000'000'000;
  int64_t fork_timeout_ns = 10'000'000'000;
  // Limits of the process of one compilation.
  int64_t timeout_ns = 60'000'000'000;
  int64_t max_memory_bytes = int64_t{8} << 30;  // address space
  int64_t max_reply_bytes = 64 << 20;
  int64_t max_output_bytes = kMaxCandidateOutputBytes;
};

// A process that has imported Triton, in the compilers' sandbox, and forks a child for each
// compilation. The child can only compute, read what the interpreter and Triton consist of, and
// answer: it cannot write or create files, start programs or processes, or signal others.
// Candidates' code runs in children only, so that nothing of it remains. Thread-safe.
class TritonServer {
 public:
  // UNAVAILABLE: the process cannot be started, or cannot import Triton. CANCELLED,
  // DEADLINE_EXCEEDED: the token was stopped.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TritonServer>> Start(
      TritonServerOptions options, const CancelToken& cancel);
  ~TritonServer();
  TritonServer(const TritonServer&) = delete;
  TritonServer& operator=(const TritonServer&) = delete;

  struct Compilation {
    // The code is kRefused or kAdmission if the child answered, was stopped or died.
    TritonReply reply;
    bool limit = false;  // it exceeded a limit, or crashed; the log says which
  };
  // Blocks. Several calls compile in parallel. UNAVAILABLE: the server has ended, the child could
  // not be restricted, or the machine killed it; try again. CANCELLED, DEADLINE_EXCEEDED: the token
  // was stopped.
  [[nodiscard]] absl::StatusOr<Compilation> Compile(TritonRequest request,
                                                    const CancelToken& cancel);

  bool Alive();

 private:
  explicit TritonServer(TritonServerOptions options) : options_(std::move(options)) {}

  // Has the server fork a child that uses the two descriptors. Sets `pid` and returns a descriptor
  // of the process.
  absl::StatusOr<int> Fork(int socket_fd, int output_fd, pid_t& pid);

  const TritonServerOptions options_;
  // Constant after construction.
  std::unique_ptr<WorkFolder> folder_;
  std::string filter_;

  std::mutex mutex_;
  // Protected by mutex_.
  std::unique_ptr<ChildProcess> process_;
  Descriptor control_;
};

// The programs that an interpreter with Triton runs: its probe, and the server.
extern const char* const kTritonProbe;
extern const char* const kTritonCompileServer;

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TRITON_TRITON_SERVER_H_
