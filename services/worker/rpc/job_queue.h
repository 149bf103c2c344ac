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

// Threads that run jobs in order of arrival. The queue itself is unbounded; the submitter's credits
// bound it. Thread-safe.
class JobQueue {
 public:
  // `waited_ns` is the time that the job spent in the queue.
  using Job = std::function<void(int64_t waited_ns)>;

  explicit JobQueue(int threads);
  // Runs the queued jobs, then joins the threads.
  ~JobQueue();
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  void Submit(Job job);
  // Runs queued jobs now on the caller's thread, and jobs submitted from now on on the submitter's
  // thread. These jobs must know that the worker drains and not begin. Running jobs continue.
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
