#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_RUNNER_CLIENT_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_RUNNER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/child_process.h"
#include "services/worker/core/cancel.h"
#include "services/worker/cuda/runner/profile_report.h"
#include "services/worker/cuda/runner/program_table.h"
#include "services/worker/cuda/runner/protocol.h"

namespace kernelcast::worker {

struct CudaRunnerOptions {
  // kernelcast-cuda-runner.
  std::string path;
  // Of the program; the real one takes none.
  std::vector<std::string> arguments = {};
  // Of the start and of mapping memory.
  int64_t start_limit_ns = 30'000'000'000;
  // Of a shared object: the user that the runner becomes where it is root, 0 for none, and what it
  // may take of the host's memory, 0 for no bound.
  uint32_t object_uid = 0;
  int64_t object_memory_bytes = int64_t{4} << 30;
  // Where the libraries are that a shared object may need besides the system's; may be empty.
  std::string library_folder = {};
};

// A runner process and what is asked of it. Not thread-safe. Ends the process when it is destroyed,
// whatever it is doing.
class CudaRunner {
 public:
  enum class End {
    kDone,
    kFailed,   // it answered that it could not; the answer says why
    kTimeout,  // it did not answer in time, and was killed
    kGone,     // it ended by itself, or was killed for printing too much
    kForged,   // it answered nonsense, or what it was not asked, and was killed
    kStopped,  // the token was stopped; it was killed, or not asked at all
  };
  struct Answer {
    End end = End::kDone;
    cuda_runner::Reply reply{};
    // kTime: two a sample, flush and program, microseconds.
    std::vector<float> values_us;
    // From asking until the answer was there, by this process's clock.
    int64_t wall_ns = 0;
    // How the process ended, if it did.
    ChildExit exit = {};
    bool ok() const { return end == End::kDone; }
  };

  // UNAVAILABLE: the process or its context could not be made; the message says why.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaRunner>> Start(
      const CudaRunnerOptions& options, const CancelToken& cancel);
  ~CudaRunner();
  CudaRunner(const CudaRunner&) = delete;
  CudaRunner& operator=(const CudaRunner&) = delete;

  Answer Map(uint32_t arena, int fd, uint64_t bytes, bool writable, const CancelToken& cancel);
  Answer Unmap(uint32_t arena, const CancelToken& cancel);
  // RESOURCE_EXHAUSTED: no memory file to be had.
  absl::StatusOr<Answer> Load(uint32_t slot, const std::string& cubin,
                              const std::vector<std::string>& kernels, int64_t limit_ns,
                              const CancelToken& cancel);
  // A shared object as the candidate; from then on `answer.wall_ns` is all that is to be believed.
  // RESOURCE_EXHAUSTED: no memory file to be had. INVALID_ARGUMENT: it is none.
  absl::StatusOr<Answer> LoadObject(const std::string& object, int64_t limit_ns,
                                    const CancelToken& cancel);
  Answer Unload(uint32_t slot, const CancelToken& cancel);
  absl::StatusOr<Answer> SetPrograms(uint32_t slot, std::span<const cuda_runner::Program> programs,
                                     int64_t limit_ns, const CancelToken& cancel);
  // The limit counts from now on: nothing queues before it.
  Answer Run(std::span<const cuda_runner::RunRecord> runs, int64_t limit_ns,
             const CancelToken& cancel);
  Answer Time(std::span<const cuda_runner::SampleRecord> samples,
              std::span<const cuda_runner::PoisonRecord> poisons, bool flush_l2, int64_t limit_ns,
              const CancelToken& cancel);

  // Of a runner that was started to profile. The report is as the runner wrote it: to be read with
  // care, and only where the answer is kDone.
  absl::StatusOr<Answer> Trace(cuda_runner::RunRecord call, uint32_t calls,
                               cuda_runner::TraceReport& report, int64_t limit_ns,
                               const CancelToken& cancel);
  absl::StatusOr<Answer> Count(std::span<const cuda_runner::SampleRecord> samples,
                               std::span<const cuda_runner::PoisonRecord> poisons,
                               cuda_runner::CountReport& report, int64_t limit_ns,
                               const CancelToken& cancel);

  // Whether it can be used: it has neither ended nor lost its context.
  bool alive() const { return alive_; }
  // Candidates that it has run; for whoever recycles it.
  int candidates = 0;

  // "an illegal memory access was encountered", ...: an answer that failed, for people.
  static std::string FailureText(const Answer& answer);

 private:
  CudaRunner(std::unique_ptr<ChildProcess> child, int socket, const CudaRunnerOptions& options)
      : child_(std::move(child)), socket_(socket), options_(options) {}
  Answer Ask(const cuda_runner::Request& request, std::span<const std::byte> records, int fd,
             int64_t limit_ns, const CancelToken& cancel);
  Answer Lost(End end);

  std::unique_ptr<ChildProcess> child_;
  const int socket_;
  const CudaRunnerOptions options_;
  bool alive_ = true;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_RUNNER_CLIENT_H_
