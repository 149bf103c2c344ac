#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CANDIDATE_LOADER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CANDIDATE_LOADER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "services/worker/core/cancel.h"
#include "services/worker/cuda/judge/runner_client.h"

namespace kernelcast::worker {

// Loads Python candidates ahead of their measurement, each in a process of its own. Loading imports
// the source, compiles what is compiled at run time, and makes one call on inputs of its own. It
// needs no timing lease. Thread-safe.
class CandidateLoader {
 public:
  // Candidates that are loaded but not yet measured hold device memory: about this much each. Those
  // that need more must not be expected.
  static constexpr uint64_t kLoadedBytes = uint64_t{4} << 30;
  static constexpr int64_t kForgetNs = 60'000'000'000;

  struct Room {
    uint64_t device_bytes = 0;  // memory of each device
    int64_t host_bytes = 0;     // available memory of the host
    // The host memory that one candidate may use. 0: unlimited.
    int64_t host_bytes_each = 0;
    size_t devices = 1;
    int64_t processors = 1;
  };
  // How many candidates to load at once for one of the devices, at most `most`.
  static int ThreadsFor(const Room& room, int most);

  // At most `threads` candidates are being loaded or are loaded. A loaded one is dropped if it is
  // not taken for `forget_ns`, and at most that much later.
  CandidateLoader(CudaRunnerOptions python, int64_t load_limit_ns, int threads,
                  int64_t forget_ns = kForgetNs);
  ~CandidateLoader();
  CandidateLoader(const CandidateLoader&) = delete;
  CandidateLoader& operator=(const CandidateLoader&) = delete;

  // Begins to load a program soon, until this many processes have it that are not taken. Ignored
  // while too many wait.
  void Expect(const std::string& program, int processes = 1);

  // Drops an expected program. Does not wait for its processes.
  void Forget(const std::string& program);

  // Returns a runner for the program, with the answer of CudaRunner::LoadObject in load_answer().
  // Loads it now if it was not expected. UNAVAILABLE: no process can be started. Returns the
  // token's status when it is stopped.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<CudaRunner>> Take(const std::string& program,
                                                                 const CancelToken& cancel);

  // Waits until no expected program is being loaded, at most `limit_ns`. None begins to be loaded
  // until the result is destroyed, which the loader must outlive.
  [[nodiscard]] std::shared_ptr<void> Pause(int64_t limit_ns);

  // The same, and ends loaded processes. Their programs are loaded again later.
  [[nodiscard]] std::shared_ptr<void> Unload(int64_t limit_ns);

  // Number of processes that wait, are being loaded or are loaded.
  size_t expected() const;
  // The most that are being loaded or are loaded.
  int max_ahead() const { return static_cast<int>(max_ahead_); }

 private:
  struct Entry {
    std::string program;
    enum class State { kWaiting, kLoading, kLoaded } state = State::kWaiting;
    absl::StatusOr<std::unique_ptr<CudaRunner>> runner = nullptr;
    int64_t loaded_ns = 0;
    bool forgotten = false;
    CancelToken cancel = CancelToken();
  };
  using Entries = std::deque<std::shared_ptr<Entry>>;  // shared with the thread that loads it

  // The oldest entry of a program, with the mutex held.
  Entries::iterator Find(const std::string& program);
  void Work();
  absl::StatusOr<std::unique_ptr<CudaRunner>> Start(const std::string& program,
                                                    const CancelToken& cancel) const;
  absl::Status Load(CudaRunner& runner, const std::string& program,
                    const CancelToken& cancel) const;
  // Returns an entry to load, or null.
  std::shared_ptr<Entry> NextLocked();

  const CudaRunnerOptions python_;
  const int64_t load_limit_ns_;
  const int64_t forget_ns_;
  const size_t max_ahead_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // State below is protected by mutex_.
  Entries entries_;
  bool stopping_ = false;
  int pauses_ = 0;
  int starting_ = 0;  // processes

  std::vector<std::thread> threads_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TARGET_CANDIDATE_LOADER_H_
