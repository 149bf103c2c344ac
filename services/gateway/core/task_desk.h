#ifndef KERNELCAST_SERVICES_GATEWAY_CORE_TASK_DESK_H_
#define KERNELCAST_SERVICES_GATEWAY_CORE_TASK_DESK_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "services/gateway/core/task.h"

namespace kernelcast::gateway {

struct TaskDeskOptions {
  size_t max_pending = 1000;
  size_t max_pending_bytes = size_t{256} << 20;
  // Limits of the finished tasks in memory. The orchestrator is asked for others again.
  size_t max_finished = 1000;
  size_t max_finished_bytes = size_t{64} << 20;
  // Requests that may wait at the same time. Others get the state as of now.
  size_t max_waiting = 100;
  // How long to wait for the verdict of a task that is not in memory, which the evaluator usually
  // knows.
  absl::Duration recall_wait = absl::ZeroDuration();
  // Evaluations of a task in which the machine gave no verdict, before the task ends without one.
  int attempts = 3;
};

// Notified of tasks, for metrics. Calls must be quick.
class TaskObserver {
 public:
  virtual ~TaskObserver() = default;
  virtual void OnStarted(const Submission&, size_t /*pending*/) {}
  virtual void OnJoined(const Submission&) {}
  virtual void OnFinished(const Submission&, const Verdict&, size_t /*pending*/) {}
};

// The tasks of all clients. A repeated submission joins the first one. Verdicts are not stored: a
// task that is no longer in memory is evaluated again under the same request id, which returns the
// verdict of the first time. Thread-safe.
class TaskDesk {
 public:
  // All must outlive the desk. `archive` and `observer` may be null.
  TaskDesk(const TaskDeskOptions& options, Evaluator* evaluator, TaskArchive* archive,
           const Clock* clock, TaskObserver* observer);
  // No callback of the evaluator may come any more.
  ~TaskDesk();
  TaskDesk(const TaskDesk&) = delete;
  TaskDesk& operator=(const TaskDesk&) = delete;

  // Starts or joins a task. A task that ended without a verdict starts again. ALREADY_EXISTS: the
  // task's id was used for another candidate. RESOURCE_EXHAUSTED: too many tasks are pending.
  // UNAVAILABLE: draining, or the archive cannot be written.
  [[nodiscard]] absl::StatusOr<Task> Submit(Submission submission);
  // NOT_FOUND: no such task. UNAVAILABLE: the archive cannot be read.
  [[nodiscard]] absl::StatusOr<Task> Find(const std::string& task_id);
  // Asks for the verdicts of all tasks that are not in memory, so that Find has them.
  void Recall(const std::vector<std::string>& task_ids);
  // Whether the task exists, without starting it.
  bool Knows(const std::string& task_id);
  // Returns when the tasks have ended, after `timeout`, when the desk stops, or at once when too
  // many others wait.
  void Wait(const std::vector<std::string>& task_ids, absl::Duration timeout);

  size_t pending() const;
  bool draining() const;
  // From now on refuses submissions. Returns when nobody waits any more, after `patience` at most.
  void Drain(absl::Duration patience);

 private:
  struct Entry {
    std::shared_ptr<const Submission> submission;
    int64_t created_ns = 0;
    std::string request_prefix;
    int attempt = 0;    // of the next evaluation
    int unsettled = 0;  // evaluations without a verdict since the task was started
    std::shared_ptr<const Verdict> verdict;
    bool pending = true;
  };

  static Task ViewOf(const Entry& entry);
  absl::StatusOr<Task> FindOrStart(const std::string& task_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Task> Start(Submission submission, int64_t created_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Restart(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Admit(size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ask(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnVerdict(const std::string& task_id, Verdict verdict);
  void Evict() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Ended(const std::vector<std::string>& task_ids) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Constant after construction.
  const TaskDeskOptions options_;
  Evaluator* const evaluator_;
  TaskArchive* const archive_;
  const Clock* const clock_;
  TaskObserver* const observer_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> finished_ ABSL_GUARDED_BY(mutex_);  // oldest first
  size_t pending_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t pending_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t finished_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace kernelcast::gateway

#endif  // KERNELCAST_SERVICES_GATEWAY_CORE_TASK_DESK_H_
