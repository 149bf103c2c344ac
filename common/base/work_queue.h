#ifndef KERNELCAST_COMMON_BASE_WORK_QUEUE_H_
#define KERNELCAST_COMMON_BASE_WORK_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace kernelcast {

// Threads that start work in order of arrival, such as work that would block a reactor.
// Thread-safe.
class WorkQueue {
 public:
  using Work = std::function<void()>;

  // Without `max_waiting` the queue is unbounded, and the submitter must bound it.
  explicit WorkQueue(int threads = 1, size_t max_waiting = std::numeric_limits<size_t>::max());
  // Runs the queued work, then joins the threads.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Returns false if the queue is full. Then the work does not run.
  bool Submit(Work work);
  // Runs queued work now on the caller's thread, and work submitted from now on on the submitter's
  // thread. This work must know that the service drains and not begin. Running work continues.
  void Drain();

 private:
  void Run();

  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // State below is protected by mutex_.
  std::deque<Work> waiting_;
  bool stopping_ = false;
  bool draining_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_WORK_QUEUE_H_
