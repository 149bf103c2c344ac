#include "services/orchestrator/core/engine_inbox.h"

#include <utility>

#include "common/base/callback_scope.h"

namespace kernelcast::orchestrator {

bool Engine::Inbox::Post(Task task, size_t size) {
  bool little = false;
  {
    std::lock_guard lock(mutex);
    if (closed) return false;
    tasks.push_back(std::move(task));
    tasks_size += size;
    if (running) return true;  // the running thread checks again
    little = tasks_size <= kLittle;
  }
  if (!little || !CallbackScope::Defer(this, [self = shared_from_this()] { self->RunHere(); })) {
    wake.notify_one();
  }
  return true;
}

void Engine::Inbox::RunHere() {
  std::unique_lock lock(mutex);
  if (closed || running || tasks.empty()) return;
  if (tasks_size > kLittle) {
    lock.unlock();
    wake.notify_one();
    return;
  }
  RunRound(lock, /*here=*/true);
  // Wakes the engine's thread if it would wake too late or must end.
  if (closed || !tasks.empty() || wake_at < sleeps_until) wake.notify_one();
}

void Engine::Inbox::RunRounds() {
  std::unique_lock lock(mutex);
  while (true) {
    while (running || (!closed && tasks.empty() && std::chrono::steady_clock::now() < wake_at)) {
      sleeps_until = running ? SteadyTime::max() : wake_at;
      if (running) {
        wake.wait(lock);
      } else {
        wake.wait_until(lock, wake_at);
      }
      sleeps_until = SteadyTime::min();
    }
    if (closed) return;
    RunRound(lock, /*here=*/false);
  }
}

void Engine::Inbox::RunRound(std::unique_lock<std::mutex>& lock, bool here) {
  running = true;
  may_block = !here;
  searches_wait = searches_wait && here;
  std::deque<Task> round = std::exchange(tasks, {});
  tasks_size = 0;
  lock.unlock();
  engine->Round(round);
  round.clear();  // without the lock, because destroying tasks may run any code
  const SteadyTime next =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(engine->TimeToNextWakeNs());
  lock.lock();
  running = false;
  wake_at = next;
}

}  // namespace kernelcast::orchestrator
