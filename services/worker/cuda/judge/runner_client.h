#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_RUNNER_CLIENT_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_RUNNER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/measurement.h"
#include "common/process/child_process.h"
#include "common/process/process_clock.h"
#include "services/worker/core/cancel.h"
#include "services/worker/cuda/api/cuda_api.h"
#include "services/worker/cuda/runner/profile_report.h"
#include "services/worker/cuda/runner/program_table.h"
#include "services/worker/cuda/runner/protocol.h"
#include "services/worker/python/zygote.h"

namespace kernelcast::worker {

struct CudaRunnerOptions {
  // Path of kernelcast-cuda-runner.
  std::string path;
  // Program arguments. The normal runner takes none.
  std::vector<std::string> arguments = {};
  // CUDA_VISIBLE_DEVICES of the process; empty: inherited.
  std::string visible_device = {};
  // Limit for starting, and for mapping memory.
  int64_t start_limit_ns = 30'000'000'000;
  // For a shared object: the user of the runner when the worker is root (0: unchanged), and its
  // limit of host memory (0: none), which includes its .data and .bss.
  uint32_t object_uid = 0;
  int64_t object_memory_bytes = int64_t{4} << 30;
  // Folder of libraries that a shared object may need besides the system's; may be empty.
  std::string library_folder = {};
  // Set: the runner is a copy of this process and runs Python programs instead of shared objects.
  std::shared_ptr<PythonZygote> python = nullptr;
  // With `python`: path of libcupti, so that the process traces kernels; empty: it does not.
  std::string profiler_library = {};
  // The processor that BeginTiming moves the runner to; -1: none.
  int timing_cpu = -1;
  // With `python`: whether the process has the driver's default number of queues of the device
  // instead of one. The driver makes the queues of all processes one after the other. With one,
  // kernels that the host launches on several streams run one after the other; those of graphs do
  // not.
  bool several_streams = false;
};

// Client of a runner process. Not thread-safe. The destructor kills the process.
class CudaRunner {
 public:
  enum class End {
    kDone,
    kFailed,    // reported a failure; the reply says why
    kTimeout,   // did not reply in time, and was killed
    kGone,      // ended by itself, or was killed for printing too much
    kForged,    // sent a malformed or unsolicited reply, and was killed
    kTooLarge,  // a shared object exceeds its limit of host memory; killed, or not loaded
    kStopped,   // the token was stopped; the runner was killed, or not asked
  };
  struct Answer {
    End end = End::kDone;
    cuda_runner::Reply reply{};
    // kTime: two values per sample (flush and program) in microseconds.
    std::vector<float> values_us;
    // Time from the request to the reply, by this process's clock.
    int64_t wall_ns = 0;
    // How the process ended, if it did.
    ChildExit exit = {};
    // Whether the process ended by itself with this code.
    bool ExitedWith(int code) const;
    bool ok() const { return end == End::kDone; }
    // Whether a Python program found too little memory on the device. Its own word.
    bool lacks_memory() const;
    // Whether a result of a Python program was in the judge's memory. Its own word.
    bool took_output_memory() const;
    // Whether a Python program's results have another form than the reference's, whether its
    // kernels do not compile, and whether they accessed an illegal address. Its own word.
    std::optional<WrongResult::Cause> wrong_form() const;
    bool not_compiled() const;
    bool illegal_address() const;
  };

  // UNAVAILABLE: the process or its context could not be created; the message says why. The process
  // ends with the calling thread.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaRunner>> Start(
      const CudaRunnerOptions& options, const CancelToken& cancel);
  // Start in two steps. Begin does not wait for the context; AwaitStart does. Send no requests in
  // between.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaRunner>> Begin(
      const CudaRunnerOptions& options);
  [[nodiscard]] absl::Status AwaitStart(const CancelToken& cancel);
  ~CudaRunner();
  CudaRunner(const CudaRunner&) = delete;
  CudaRunner& operator=(const CudaRunner&) = delete;

  // The arena begins `padding` bytes after the start of the memory.
  Answer Map(uint32_t arena, int fd, uint64_t bytes, bool writable, const CancelToken& cancel,
             uint32_t padding = 0);
  Answer Unmap(uint32_t arena, const CancelToken& cancel);
  // RESOURCE_EXHAUSTED: no memory file can be created.
  absl::StatusOr<Answer> Load(uint32_t slot, const std::string& cubin,
                              const std::vector<std::string>& kernels, int64_t limit_ns,
                              const CancelToken& cancel);
  // Loads a shared object as the candidate. From then on only `answer.wall_ns` can be trusted.
  // RESOURCE_EXHAUSTED: no memory file can be created. INVALID_ARGUMENT: not a shared object. With
  // options.python, the object is a program for cuda_runner.py.
  absl::StatusOr<Answer> LoadObject(const std::string& object, int64_t limit_ns,
                                    const CancelToken& cancel);
  Answer Unload(uint32_t slot, const CancelToken& cancel);
  absl::StatusOr<Answer> SetPrograms(uint32_t slot, std::span<const cuda_runner::Program> programs,
                                     int64_t limit_ns, const CancelToken& cancel);
  // Moves the runner to options.timing_cpu.
  void BeginTiming() const;
  // Asks for an answer and nothing else. A runner that has just answered takes up its next request
  // sooner than one that has slept.
  Answer Wake(int64_t limit_ns, const CancelToken& cancel);
  // The limit counts from now on: nothing is queued before the request. `replay`: calls are
  // CUDA graphs. `flushes`: how often the L2 cache is overwritten before each call.
  Answer Run(std::span<const cuda_runner::RunRecord> runs, int64_t limit_ns,
             const CancelToken& cancel, bool replay = false);
  Answer Time(std::span<const cuda_runner::SampleRecord> samples,
              std::span<const cuda_runner::PoisonRecord> poisons, uint32_t flushes,
              int64_t limit_ns, const CancelToken& cancel, bool replay = false);

  // Only for a runner that was started for profiling. The report is what the runner wrote: validate
  // it, and use it only if the answer is kDone.
  absl::StatusOr<Answer> Trace(cuda_runner::RunRecord call, uint32_t calls,
                               cuda_runner::TraceReport& report, int64_t limit_ns,
                               const CancelToken& cancel);
  absl::StatusOr<Answer> Count(std::span<const cuda_runner::SampleRecord> samples,
                               std::span<const cuda_runner::PoisonRecord> poisons,
                               cuda_runner::CountReport& report, int64_t limit_ns,
                               const CancelToken& cancel);

  // Processor time of the process, and a short wait until it waits for a request, after which the
  // time is exact.
  int64_t RanNs() const { return clock_.RanNs(); }
  void AwaitSleep() const;

  // The answer of LoadObject; nothing before the first.
  const std::optional<Answer>& load_answer() const { return load_answer_; }
  // Kills the process, for which the destructor waits.
  void Kill();
  // Whether the runner is usable: it has neither ended nor lost its context.
  bool alive() const { return alive_; }
  // Its output so far, only the end if it is long.
  const std::string& output() const { return child_->output(); }
  // Number of candidates that it has run. Maintained by the owner, which recycles runners.
  int candidates = 0;
  // Set by HostileMemory::Attach.
  bool has_hostile_memory = false;

  // Describes a failed answer, e.g. "an illegal memory access was encountered".
  static std::string FailureText(const Answer& answer);

 private:
  CudaRunner(std::unique_ptr<ChildProcess> child, int socket, const CudaRunnerOptions& options)
      : child_(std::move(child)), socket_(socket), options_(options), clock_(child_->pid()) {}
  // Does not sleep for the first `awake_ns` of waiting for the answer.
  Answer Ask(const cuda_runner::Request& request, std::span<const std::byte> records, int fd,
             int64_t limit_ns, const CancelToken& cancel, int64_t awake_ns = 0);
  // Returns false if the process has ended.
  bool Send(const cuda_runner::Request& request, std::span<const std::byte> records, int fd);
  Answer Receive(const cuda_runner::Request& request, int64_t start_ns, int64_t limit_ns,
                 const CancelToken& cancel, int64_t awake_ns);
  Answer Lost(End end);
  // The resident memory of the process without that of files; 0 if it is gone.
  int64_t ResidentBytes() const;
  bool ExceedsMemory() const;

  std::unique_ptr<ChildProcess> child_;
  const int socket_;
  const CudaRunnerOptions options_;
  const ProcessClock clock_;
  int64_t began_ns_ = 0;
  bool alive_ = true;
  std::optional<Answer> load_answer_;
  // With a shared object loaded: the resident memory that it may reach. 0: unlimited.
  int64_t max_resident_bytes_ = 0;
};

// Translates an answer for a trusted program. UNAVAILABLE: the runner ended. FAILED_PRECONDITION:
// the program is at fault. `late` is the code for a timeout. Returns the token's status when it is
// stopped.
[[nodiscard]] absl::Status AnswerStatus(const CudaApi& api, const CudaRunner::Answer& answer,
                                        const CancelToken& cancel, const std::string& what,
                                        absl::StatusCode late = absl::StatusCode::kUnavailable);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_RUNNER_CLIENT_H_
