// Starts, runs and stops the engine: rounds, commits, and what follows from them.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/callback_scope.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/orchestrator/core/append_entry.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/engine_inbox.h"

namespace kernelcast::orchestrator {

absl::Status ReadOnlyError() {
  return absl::FailedPreconditionError("the orchestrator only reads the log");
}

Engine::Engine(const EngineOptions& options, EventStore* store, Workers* workers,
               Forecasters* forecasters, const Clock* clock, EngineObserver* observer,
               KernelWriter* writer)
    : options_(options),
      store_(store),
      workers_(workers),
      forecasters_(forecasters),
      clock_(clock),
      observer_(observer),
      writer_(writer),
      inbox_(std::make_shared<Inbox>(this)),
      log_writer_(options.log, store, [inbox = inbox_] {
        const CallbackScope scope;
        inbox->Post([] {});
      }) {}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Start(const EngineOptions& options,
                                                      EventStore* store, Workers* workers,
                                                      Forecasters* forecasters, const Clock* clock,
                                                      EngineObserver* observer,
                                                      KernelWriter* writer) {
  std::unique_ptr<Engine> engine(
      new Engine(options, store, workers, forecasters, clock, observer, writer));
  KC_RETURN_IF_ERROR(engine->Recover());
  engine->thread_ = std::thread([raw = engine.get()] { raw->Run(); });
  return engine;
}

Engine::~Engine() { Stop(); }

void Engine::Stop() {
  {
    std::lock_guard lock(inbox_->mutex);
    inbox_->closed = true;
  }
  inbox_->wake.notify_one();
  if (!thread_.joinable()) return;
  thread_.join();
  // Dropping the remaining tasks notifies those who wait for them.
  std::deque<Task> dropped;
  {
    std::lock_guard lock(inbox_->mutex);
    dropped.swap(inbox_->tasks);
  }
  dropped.clear();
  batch_ = {};
  actions_.clear();
  for (auto& [search_id, stop] : writing_stops_) stop.request_stop();
  AnswerAll(
      absl::UnavailableError("the orchestrator is stopping; ask again with the same request_id"));
}

absl::Status Engine::Recover() {
  const int64_t start_ns = clock_->MonotonicNs();
  KC_RETURN_IF_ERROR(
      store_->Replay(1, [this](const StoredEvent& stored) { return state_.Apply(stored); }));
  Log(LogLevel::kInfo, "log replayed",
      {{"events", state_.last_sequence()},
       {"live_evaluations", state_.evaluations().size()},
       {"searches", state_.searches().size()},
       {"seconds", static_cast<double>(clock_->MonotonicNs() - start_ns) * 1e-9}});
  if (!options_.read_only) {
    for (const std::string& request_id : state_.EvaluationIds()) {
      Post([this, request_id] { Advance(request_id); });
    }
    dirty_searches_ = state_.open_searches();
    NoteProblems();
  }
  durable_sequence_ = state_.last_sequence();
  UpdateFigures();
  return absl::OkStatus();
}

void Engine::Post(Task task) { inbox_->Post(std::move(task)); }

int64_t Engine::TimeToNextWakeNs() {
  if (inbox_->searches_wait) return 0;
  return std::min(next_tick_ns_, ResumeForecasts()) - clock_->MonotonicNs();
}

void Engine::Run() {
  inbox_->RunRounds();
  if (failed_) return;
  Commit();
  for (const LogWriter::Written& written : log_writer_.Flush()) Finish(written);
}

void Engine::Round(std::deque<Task>& tasks) {
  if (failed_) return;
  for (const LogWriter::Written& written : log_writer_.Take()) {
    Finish(written);
    if (failed_) return;
  }
  for (Task& task : tasks) task();
  ResumeForecasts();
  if (inbox_->may_block && clock_->MonotonicNs() >= next_tick_ns_) {
    Tick();
    next_tick_ns_ = clock_->MonotonicNs() + absl::ToInt64Nanoseconds(options_.tick);
  }
  if (!options_.read_only) {
    DriveSearches();
    DriveProblems();
    OfferLabels();
  }
  Commit();
  std::vector<Task> actions;
  actions.swap(actions_);
  for (Task& action : actions) action();
}

void Engine::Tick() {
  if (!options_.read_only) {
    dirty_searches_.insert(state_.open_searches().begin(), state_.open_searches().end());
    NoteProblems();
    LookForDevices();
  }
  if (observer_ != nullptr) {
    AfterCommit([this] { observer_->OnOverview(MakeOverview()); });
  }
}

void Engine::Commit() {
  while (!batch_.empty()) {
    batch_.last_sequence = state_.last_sequence();
    LogBatch batch = std::exchange(batch_, {});
    if (batch.events.empty() && log_writer_.idle()) {
      Finish({std::move(batch), absl::OkStatus()});
    } else {
      log_writer_.Add(std::move(batch));
    }
  }
}

void Engine::Finish(const LogWriter::Written& written) {
  if (!written.status.ok()) {
    failed_ = true;
    Fail(written.status);
    return;
  }
  for (const std::string& request_id : written.batch.settled) settling_.erase(request_id);
  if (written.batch.last_sequence != durable_sequence_) {
    durable_sequence_ = written.batch.last_sequence;
    UpdateFigures();
    std::lock_guard lock(listeners_mutex_);
    for (auto& [handle, listener] : listeners_) listener(durable_sequence_);
  }
  for (const Task& effect : written.batch.effects) effect();
  for (auto& [command, done] : std::exchange(unreadable_, {})) {
    HandleEvaluate(std::move(command), std::move(done));
  }
}

void Engine::AnswerAll(const absl::Status& status) {
  for (auto& [request_id, waiting] : waiters_) {
    for (EvaluateDone& done : waiting) done(status);
  }
  waiters_.clear();
  for (auto& [command, done] : unreadable_) done(status);
  unreadable_.clear();
}

void Engine::Fail(const absl::Status& status) {
  Log(LogLevel::kError, "the event log cannot be written",
      {{"error", std::string(status.ToString())}});
  std::function<void()> callback;
  {
    std::lock_guard lock(mutex_);
    failure_ = status;
    callback = failure_callback_;
  }
  batch_ = {};
  actions_.clear();
  AnswerAll(absl::UnavailableError("the event log cannot be written"));
  if (callback) callback();
}

// A candidate outside searches waits, or the device has room for another one.
void Engine::NoteProblem(const Event& event) {
  const std::string* request_id = nullptr;
  if (const auto* forecast = std::get_if<EvaluationForecast>(&event.body)) {
    request_id = &forecast->request_id;
  } else if (const auto* settled = std::get_if<EvaluationSettled>(&event.body)) {
    request_id = &settled->request_id;
  } else {
    return;
  }
  const Evaluation* const evaluation = state_.FindEvaluation(*request_id);
  if (evaluation == nullptr || !evaluation->search_id.empty()) return;
  const Candidate& candidate = evaluation->candidate;
  dirty_problems_.emplace(candidate.problem_id, candidate.target, evaluation->device_model);
}

bool Engine::Emit(EventBody body) {
  auto event = std::make_unique<Event>();
  event->time_ns = NowNs();
  event->body = std::move(body);
  AppendEntry entry = EntryFor(*event, state_);
  NoteProblem(*event);
  const absl::Status applied = state_.Apply(state_.last_sequence() + 1, *event);
  if (!applied.ok()) {
    Log(LogLevel::kError, "event does not fit the state",
        {{"request_id", entry.request_id},
         {"search_id", entry.search_id},
         {"error", std::string(applied.ToString())}});
    return false;
  }
  if (!entry.search_id.empty()) dirty_searches_.insert(entry.search_id);
  if (const auto* closed = std::get_if<SearchClosed>(&event->body)) {
    traces_.EndSearch(closed->search_id, state_.FindSearch(closed->search_id)->end_reason);
  }
  entry.event = event.get();
  batch_.entries.push_back(std::move(entry));
  batch_.events.push_back(std::move(event));
  return true;
}

void Engine::EndAfterCommit(Span span) {
  if (!span.recording()) return;
  // Shared because effects must be copyable.
  AfterCommit([kept = std::make_shared<Span>(std::move(span))] { kept->End(); });
}

void Engine::CapacityChanged() {
  if (options_.read_only) return;
  Post([this] {
    device_models_.clear();
    dirty_searches_.insert(state_.open_searches().begin(), state_.open_searches().end());
    NoteProblems();
    LookForDevices();
  });
}

int Engine::AddListener(Listener listener) {
  std::lock_guard lock(listeners_mutex_);
  listeners_.emplace(next_listener_, std::move(listener));
  return next_listener_++;
}

void Engine::RemoveListener(int handle) {
  std::lock_guard lock(listeners_mutex_);
  listeners_.erase(handle);
}

absl::Status Engine::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Engine::SetFailureCallback(std::function<void()> callback) {
  std::lock_guard lock(mutex_);
  failure_callback_ = std::move(callback);
}

void Engine::DigestState(DigestDone done) {
  Post([this, done = std::move(done)] {
    AfterCommit([done, sequence = state_.last_sequence(), digest = state_.DigestHash()] {
      done(sequence, digest);
    });
  });
}

bool Engine::Inspect(const std::function<void(const State&)>& read) {
  // Owned by the task alone: dropping the task breaks the promise, which also ends the wait.
  auto finished = std::make_shared<std::promise<void>>();
  std::future<void> ended = finished->get_future();
  auto has_run = std::make_shared<std::atomic<bool>>(false);
  inbox_->PostToThread([this, &read, has_run, finished = std::move(finished)] {
    read(state_);
    *has_run = true;
    finished->set_value();
  });
  ended.wait();
  return *has_run;
}

void Engine::BeginDrain() {
  Post([this] { draining_ = true; });
}

}  // namespace kernelcast::orchestrator
