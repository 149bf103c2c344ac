#include "services/gateway/core/task_desk.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/status.h"

namespace kernelcast::gateway {
namespace {

size_t BytesOf(const Submission& submission) {
  size_t bytes = submission.candidate.source.size() + 1024;
  for (const ProblemFile& file : submission.problem_files) bytes += file.content.size();
  return bytes;
}

// The part of a task's request ids that depends on what is evaluated, so that an id that is used
// again for another candidate is another request.
std::string RequestPrefix(const Submission& submission) {
  return absl::StrCat("g_", ContentHasher()
                                .Add(submission.task_id)
                                .Add(submission.candidate.candidate_id)
                                .Add(submission.device_model)
                                .Hex128());
}

std::string RequestId(const std::string& prefix, int attempt) {
  return absl::StrCat(prefix, "-", attempt);
}

}  // namespace

TaskDesk::TaskDesk(const TaskDeskOptions& options, Evaluator* evaluator, TaskArchive* archive,
                   const Clock* clock, TaskObserver* observer)
    : options_(options),
      evaluator_(evaluator),
      archive_(archive),
      clock_(clock),
      observer_(observer) {}

TaskDesk::~TaskDesk() = default;

Task TaskDesk::ViewOf(const Entry& entry) {
  const bool settled = entry.pending || entry.verdict->settled();
  return {entry.submission, entry.created_ns, entry.pending ? nullptr : entry.verdict,
          RequestId(entry.request_prefix, settled ? entry.attempt : entry.attempt - 1)};
}

absl::Status TaskDesk::Admit(size_t bytes) const {
  if (draining_) return absl::UnavailableError("the gateway is shutting down");
  if (pending_ >= options_.max_pending || pending_bytes_ + bytes > options_.max_pending_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(pending_, " tasks are pending; try again when some have ended"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Task> TaskDesk::Submit(Submission submission) {
  const std::lock_guard lock(mutex_);
  auto found = entries_.find(submission.task_id);
  int64_t created_ns = clock_->WallNs();
  if (found == entries_.end() && archive_ != nullptr) {
    absl::StatusOr<StoredTask> stored = archive_->Find(submission.task_id);
    if (stored.ok()) {
      if (RequestPrefix(stored->submission) != RequestPrefix(submission)) {
        return absl::AlreadyExistsError("the id of this task was used for another candidate");
      }
      created_ns = stored->created_ns;
      submission = std::move(stored->submission);
      if (observer_ != nullptr) observer_->OnJoined(submission);
      return Start(std::move(submission), created_ns);
    }
    if (!absl::IsNotFound(stored.status())) return stored.status();
  }
  if (found == entries_.end()) {
    KC_RETURN_IF_ERROR(Admit(BytesOf(submission)));
    if (archive_ != nullptr) KC_RETURN_IF_ERROR(archive_->Put(submission, created_ns));
    return Start(std::move(submission), created_ns);
  }
  Entry& entry = found->second;
  if (entry.request_prefix != RequestPrefix(submission)) {
    return absl::AlreadyExistsError("the id of this task was used for another candidate");
  }
  if (observer_ != nullptr) observer_->OnJoined(*entry.submission);
  if (!entry.pending && !entry.verdict->settled()) {
    KC_RETURN_IF_ERROR(Admit(BytesOf(*entry.submission)));
    Restart(entry);
  }
  return ViewOf(entry);
}

absl::StatusOr<Task> TaskDesk::Find(const std::string& task_id) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = entries_.find(task_id); found != entries_.end()) {
      return ViewOf(found->second);
    }
  }
  Recall({task_id});
  const std::lock_guard lock(mutex_);
  return FindOrStart(task_id);
}

void TaskDesk::Recall(const std::vector<std::string>& task_ids) {
  {
    const std::lock_guard lock(mutex_);
    // A task that cannot be started is reported by Find.
    for (const std::string& task_id : task_ids) static_cast<void>(FindOrStart(task_id).ok());
  }
  Wait(task_ids, options_.recall_wait);
}

absl::StatusOr<Task> TaskDesk::FindOrStart(const std::string& task_id) {
  if (const auto found = entries_.find(task_id); found != entries_.end()) {
    return ViewOf(found->second);
  }
  if (archive_ == nullptr) return absl::NotFoundError("there is no such task");
  KC_ASSIGN_OR_RETURN(StoredTask stored, archive_->Find(task_id));
  return Start(std::move(stored.submission), stored.created_ns);
}

bool TaskDesk::Knows(const std::string& task_id) {
  {
    const std::lock_guard lock(mutex_);
    if (entries_.contains(task_id)) return true;
  }
  return archive_ != nullptr && archive_->Find(task_id).ok();
}

absl::StatusOr<Task> TaskDesk::Start(Submission submission, int64_t created_ns) {
  const size_t bytes = BytesOf(submission);
  KC_RETURN_IF_ERROR(Admit(bytes));
  Entry entry;
  entry.request_prefix = RequestPrefix(submission);
  entry.created_ns = created_ns;
  entry.submission = std::make_shared<const Submission>(std::move(submission));
  const std::string task_id = entry.submission->task_id;
  ++pending_;
  pending_bytes_ += bytes;
  if (observer_ != nullptr) observer_->OnStarted(*entry.submission, pending_);
  Entry& started = entries_.emplace(task_id, std::move(entry)).first->second;
  Ask(started);
  return ViewOf(started);
}

void TaskDesk::Restart(Entry& entry) {
  const size_t bytes = BytesOf(*entry.submission);
  finished_.erase(std::find(finished_.begin(), finished_.end(), entry.submission->task_id));
  finished_bytes_ -= bytes;
  entry.pending = true;
  entry.unsettled = 0;
  ++pending_;
  pending_bytes_ += bytes;
  if (observer_ != nullptr) observer_->OnStarted(*entry.submission, pending_);
  Ask(entry);
}

void TaskDesk::Ask(const Entry& entry) {
  evaluator_->Evaluate(RequestId(entry.request_prefix, entry.attempt), entry.submission,
                       [this, task_id = entry.submission->task_id](Verdict verdict) {
                         OnVerdict(task_id, std::move(verdict));
                       });
}

void TaskDesk::OnVerdict(const std::string& task_id, Verdict verdict) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(task_id);
  if (found == entries_.end() || !found->second.pending) return;
  Entry& entry = found->second;
  if (!verdict.settled()) {
    ++entry.attempt;
    if (++entry.unsettled < options_.attempts && !draining_) {
      Ask(entry);
      return;
    }
  }
  const size_t bytes = BytesOf(*entry.submission);
  entry.verdict = std::make_shared<const Verdict>(std::move(verdict));
  entry.pending = false;
  --pending_;
  pending_bytes_ -= bytes;
  finished_.push_back(task_id);
  finished_bytes_ += bytes;
  if (observer_ != nullptr) observer_->OnFinished(*entry.submission, *entry.verdict, pending_);
  Evict();
  changed_.notify_all();
}

void TaskDesk::Evict() {
  while (finished_.size() > 1 && (finished_.size() > options_.max_finished ||
                                  finished_bytes_ > options_.max_finished_bytes)) {
    const auto oldest = entries_.find(finished_.front());
    finished_bytes_ -= BytesOf(*oldest->second.submission);
    entries_.erase(oldest);
    finished_.pop_front();
  }
}

bool TaskDesk::Ended(const std::vector<std::string>& task_ids) const {
  return std::all_of(task_ids.begin(), task_ids.end(), [this](const std::string& id) {
    const auto found = entries_.find(id);
    return found == entries_.end() || !found->second.pending;
  });
}

void TaskDesk::Wait(const std::vector<std::string>& task_ids, absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  if (waiting_ >= options_.max_waiting) return;
  ++waiting_;
  changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                    [&] { return stopped_ || Ended(task_ids); });
  --waiting_;
  lock.unlock();
  changed_.notify_all();
}

size_t TaskDesk::pending() const {
  const std::lock_guard lock(mutex_);
  return pending_;
}

bool TaskDesk::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

void TaskDesk::Drain(absl::Duration patience) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  changed_.wait_for(lock, absl::ToChronoNanoseconds(patience), [&] { return waiting_ == 0; });
  stopped_ = true;
  lock.unlock();
  changed_.notify_all();
}

}  // namespace kernelcast::gateway
