#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ENGINE_INBOX_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ENGINE_INBOX_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "services/orchestrator/core/engine.h"

namespace kernelcast::orchestrator {

// The engine's task queue. Rounds run on the engine's thread. If the engine is idle and there is
// little to do, the posting thread runs the round itself at the end of its callback. So a single
// candidate needs no thread wakeup, and at high rates posting threads do not wait for the engine.
struct Engine::Inbox : std::enable_shared_from_this<Engine::Inbox> {
  using SteadyTime = std::chrono::steady_clock::time_point;
  // More tasks than this are left to the engine's thread.
  static constexpr size_t kLittle = 4;

  explicit Inbox(Engine* e) : engine(e) {}

  // Returns false after Close. `size`: number of candidates in the task.
  bool Post(Task task, size_t size = 1);
  // For tasks that may block or that a thread waits for: runs on the engine's thread.
  bool PostToThread(Task task) { return Post(std::move(task), kLittle + 1); }
  // Runs a round on the calling thread if there is little to do.
  void RunHere();
  // Main loop of the engine's thread.
  void RunRounds();
  // `lock` holds the mutex, before and after.
  void RunRound(std::unique_lock<std::mutex>& lock, bool here);

  // Not used during or after Stop.
  Engine* const engine;
  std::mutex mutex;
  std::condition_variable wake;  // wakes the engine's thread
  std::deque<Task> tasks ABSL_GUARDED_BY(mutex);
  size_t tasks_size ABSL_GUARDED_BY(mutex) = 0;
  bool running ABSL_GUARDED_BY(mutex) = false;
  bool closed ABSL_GUARDED_BY(mutex) = false;
  // Used by the thread that runs a round: whether this round may block, and whether searches wait
  // for one that may.
  bool may_block = false;
  bool searches_wait = false;
  // When the next round is due, even without tasks.
  SteadyTime wake_at ABSL_GUARDED_BY(mutex) = SteadyTime::min();
  // When the engine's thread will wake up. SteadyTime::min() if it is not sleeping.
  SteadyTime sleeps_until ABSL_GUARDED_BY(mutex) = SteadyTime::min();
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ENGINE_INBOX_H_
