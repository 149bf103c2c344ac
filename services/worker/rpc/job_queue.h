#ifndef KERNELCAST_SERVICES_WORKER_RPC_JOB_QUEUE_H_
#define KERNELCAST_SERVICES_WORKER_RPC_JOB_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kernelcast::worker {

// Threads that run jobs in order of arrival. What bounds the queue are the credits of whoever
// submits. Thread-safe.
class JobQueue {
 public:
  // A job learns how long it waited.
  using Job = std::function<void(int64_t waited_ns)>;

  explicit JobQueue(int threads);
  // Runs what is queued, then joins.
  ~JobQueue();
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  void Submit(Job job);
  // Runs what waits here and now, on the caller's thread, and from now on what is submitted on its
  // submitter's: for jobs that know that they are not to begin any more. What runs goes on.
  void Drain();

 private:
  struct Waiting {
    Job job;
    int64_t since_ns = 0;
  };
  void Work();

  std::mutex mutex_;
  std::condition_variable changed_;
  // State below is protected by mutex_.
  std::deque<Waiting> waiting_;
  bool stopping_ = false;
  bool draining_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_RPC_JOB_QUEUE_H_
