#ifndef KERNELCAST_SERVICES_FORECASTER_RPC_WORK_QUEUE_H_
#define KERNELCAST_SERVICES_FORECASTER_RPC_WORK_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace kernelcast::forecaster {

// One thread that runs work that is too slow for a reactor, in order. Thread-safe.
class WorkQueue {
 public:
  explicit WorkQueue(size_t max_waiting);
  // Runs the submitted work, then ends.
  ~WorkQueue();

  // Returns false if full.
  bool Submit(std::function<void()> work);

 private:
  const size_t max_waiting_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stop_ = false;
  std::thread thread_;  // last: uses the other members
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_RPC_WORK_QUEUE_H_
