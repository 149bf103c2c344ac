#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TARGET_PARKED_PROCESSES_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TARGET_PARKED_PROCESSES_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace kernelcast::worker {

// A process that is stopped and never runs again. The destructor waits for its end, which takes
// the driver long if it has used a device.
class ParkedProcess {
 public:
  virtual ~ParkedProcess() = default;
  // Begins to end it.
  virtual void Kill() = 0;
};

// Stopped processes of candidates that are finished. Ending one delays what other processes do with
// the device meanwhile, so they are ended together: when there are `most`, or when nothing was
// judged for `idle_ns`. Thread-safe.
class ParkedProcesses {
 public:
  using Batch = std::vector<std::unique_ptr<ParkedProcess>>;

  // `most` 0: none are parked.
  ParkedProcesses(size_t most, int64_t idle_ns);
  // Ends all.
  ~ParkedProcesses();
  ParkedProcesses(const ParkedProcesses&) = delete;
  ParkedProcesses& operator=(const ParkedProcesses&) = delete;

  bool enabled() const { return most_ > 0; }
  size_t size() const;

  // Adds a process. Returns all, killed, if there are now `most`; destroying them waits for their
  // end.
  [[nodiscard]] Batch Park(std::unique_ptr<ParkedProcess> process);
  // Ends all, and waits.
  void EndAll();

  // While the result lives, none is ended for idleness. Waits for an end that has begun. This
  // object must outlive the result.
  [[nodiscard]] std::shared_ptr<void> Hold();

 private:
  // Takes all, killed, with the mutex held.
  Batch TakeLocked();
  // Ends processes for idleness.
  void Watch();

  const size_t most_;
  const int64_t idle_ns_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // State below is protected by mutex_.
  Batch parked_;
  int held_ = 0;
  bool ending_ = false;  // for idleness
  int64_t released_ns_ = 0;
  bool stopping_ = false;

  std::thread watcher_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TARGET_PARKED_PROCESSES_H_
