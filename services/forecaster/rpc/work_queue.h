#ifndef KERNELCAST_SERVICES_FORECASTER_RPC_WORK_QUEUE_H_
#define KERNELCAST_SERVICES_FORECASTER_RPC_WORK_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace kernelcast::forecaster {

// One thread that runs what takes too long for a reactor, in order. Thread-safe.
class WorkQueue {
 public:
  explicit WorkQueue(size_t max_waiting);
  // Runs what was submitted, then ends.
  ~WorkQueue();

  // False: full.
  bool Submit(std::function<void()> work);

 private:
  const size_t max_waiting_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stop_ = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_RPC_WORK_QUEUE_H_
