#include "services/orchestrator/core/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <future>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/callback_scope.h"
#include "common/base/hash.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/orchestrator/core/next_measurement.h"
#include "services/orchestrator/core/novelty.h"

namespace kernelcast::orchestrator {
namespace {

constexpr size_t kMaxIdBytes = 128;
constexpr size_t kLabelsPerOffer = 256;
constexpr int64_t kLabelRetryNs = 2'000'000'000;
constexpr size_t kManyLabels = 4096;
constexpr int64_t kManyLabelsPauseNs = 100'000'000;

// A search first explores this much of a space before it selects, and some more with each
// measurement, so that variations of the best are among the candidates. Smaller spaces are explored
// completely.
constexpr uint64_t kLookAhead = 512;
constexpr uint64_t kLookAheadPerMeasurement = 8;

// How often, and after what delay, a forecaster is asked again if it has not learnt from the newest
// labels.
constexpr int kMaxBehind = 60;
constexpr int64_t kBehindWaitNs = 8'000'000;

// Maximum consecutive answers of a model without a new kernel. After that it is not asked again.
constexpr uint64_t kMaxUselessAnswers = 24;
// Consecutive unanswered requests after which the search continues with the template space, if it
// has one.
constexpr uint64_t kOutagesBeforeTemplates = 2;
// Number of failed kernels shown to a model.
constexpr size_t kReportedSetbacks = 6;

absl::Status CheckId(std::string_view field, const std::string& id) {
  if (id.empty() || id.size() > kMaxIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(field), ": has ", id.size(),
                                                   " bytes; 1 to ", kMaxIdBytes, " are allowed"));
  }
  for (unsigned char c : id) {
    if (c <= ' ' || c > '~') {
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(field), ": holds a byte of value ", static_cast<int>(c),
                       "; printable ASCII without blanks is allowed"));
    }
  }
  return absl::OkStatus();
}

// The random number that decides an audit. A function of seed and id, so that a replay draws the
// same.
double AuditDraw(uint64_t seed, const std::string& request_id) {
  ContentHasher hasher;
  const std::string hex =
      hasher.Add("audit").Add(static_cast<long long>(seed)).Add(request_id).Hex128();
  return static_cast<double>(std::stoull(hex.substr(0, 13), nullptr, 16)) * 0x1.0p-52;
}

constexpr std::string_view kSetAside = "set aside: handling it crashed the orchestrator twice";

// Name of handling a stage's outcome, for the crash journal.
std::string HandlingName(Stage stage, const std::string& request_id) {
  return absl::StrCat("stage ", static_cast<int>(stage), ":", request_id);
}

}  // namespace

// The engine's task queue. Rounds run on the engine's thread. If the engine is idle and there is
// little to do, the posting thread runs the round itself at the end of its callback. So a single
// candidate needs no thread wakeup, and at high rates posting threads do not wait for the engine.
struct Engine::Inbox : std::enable_shared_from_this<Engine::Inbox> {
  using SteadyTime = std::chrono::steady_clock::time_point;
  // More tasks than this are left to the engine's thread.
  static constexpr size_t kLittle = 4;

  explicit Inbox(Engine* e) : engine(e) {}

  // Returns false after Close. `size`: number of candidates in the task.
  bool Post(Task task, size_t size = 1) {
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
  // For tasks that may block or that a thread waits for: runs on the engine's thread.
  bool PostToThread(Task task) { return Post(std::move(task), kLittle + 1); }

  void RunHere() {
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

  // Main loop of the engine's thread.
  void RunRounds() {
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

  void RunRound(std::unique_lock<std::mutex>& lock, bool here) {
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

SearchSnapshot Snapshot(const Search& search, const State& state) {
  SearchSnapshot snapshot;
  snapshot.search_id = search.search_id;
  if (auto problem = state.FindProblem(search.spec.problem_id)) {
    snapshot.problem_name = problem->name;
  }
  snapshot.spec = search.spec;
  snapshot.device_model = search.device_model;
  snapshot.status = search.status;
  snapshot.end_reason = search.end_reason;
  snapshot.counts = search.counts;
  snapshot.incumbent = search.incumbent;
  snapshot.confirmed = search.confirmed;
  snapshot.started_ns = search.started_ns;
  snapshot.ended_ns = search.ended_ns;
  snapshot.last_sequence = search.last_sequence;
  snapshot.risk = search.routes.risk().Report();
  snapshot.finalists = search.finalists;
  return snapshot;
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
  for (const std::string& request_id : state_.EvaluationIds()) {
    Post([this, request_id] { Advance(request_id); });
  }
  dirty_searches_ = state_.open_searches();
  durable_sequence_ = state_.last_sequence();
  UpdateFigures();
  return absl::OkStatus();
}

void Engine::Post(Task task) { inbox_->Post(std::move(task)); }

int64_t Engine::TimeToNextWakeNs() {
  if (inbox_->searches_wait) return 0;
  return std::min(next_tick_ns_, ResumeReranks()) - clock_->MonotonicNs();
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
  ResumeReranks();
  if (inbox_->may_block && clock_->MonotonicNs() >= next_tick_ns_) {
    Tick();
    next_tick_ns_ = clock_->MonotonicNs() + absl::ToInt64Nanoseconds(options_.tick);
  }
  DriveSearches();
  OfferLabels();
  Commit();
  std::vector<Task> actions;
  actions.swap(actions_);
  for (Task& action : actions) action();
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

bool Engine::Emit(EventBody body) {
  auto event = std::make_unique<Event>();
  event->time_ns = NowNs();
  event->body = std::move(body);
  AppendEntry entry = EntryFor(*event, state_);
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

void Engine::UpdateFigures() {
  EngineFigures figures;
  figures.events = durable_sequence_;
  figures.live_evaluations = state_.evaluations().size();
  figures.pending_labels = state_.pending_labels().size();
  figures.running_searches = state_.open_searches().size();
  for (const std::string& id : state_.open_searches()) {
    if (const auto& generation = state_.FindSearch(id)->generation; generation != nullptr) {
      figures.live_generations += generation->in_flight.size();
    }
  }
  {
    std::lock_guard lock(mutex_);
    figures_ = figures;
  }
  if (observer_ != nullptr) observer_->OnFigures(figures);
}

// --- Commands ---------------------------------------------------------------------------------

void Engine::PutProblem(std::vector<ProblemFile> files, ProblemDone done) {
  // Parsed on the caller's thread, because it may take milliseconds. The state parses the same
  // bytes.
  absl::StatusOr<Problem> parsed = ParseProblem(files);
  if (!parsed.ok()) {
    done(parsed.status());
    return;
  }
  Post([this, id = parsed->problem_id, files = std::move(files), done = std::move(done)]() mutable {
    if (state_.FindProblem(id) == nullptr && !Emit(ProblemPut{std::move(files)})) {
      AfterCommit([done = std::move(done)] {
        done(absl::InternalError("the problem could not be stored"));
      });
      return;
    }
    AfterCommit([done = std::move(done), problem = state_.FindProblem(id)] { done(problem); });
  });
}

void Engine::Evaluate(EvaluateCommand command, EvaluateDone done) {
  std::vector<EvaluateCall> calls;
  calls.push_back({std::move(command), std::move(done)});
  Evaluate(std::move(calls));
}

void Engine::Evaluate(std::vector<EvaluateCall> calls) {
  if (!failure().ok()) {
    for (const EvaluateCall& call : calls) {
      call.done(absl::UnavailableError("the event log cannot be written"));
    }
    return;
  }
  // Shared because tasks must be copyable.
  const auto valid = std::make_shared<std::vector<EvaluateCall>>();
  valid->reserve(calls.size());
  for (EvaluateCall& call : calls) {
    absl::Status status = CheckId("request_id", call.command.request_id);
    if (status.ok()) status = ValidateCandidate(call.command.candidate);
    if (!status.ok()) {
      call.done(status);
      continue;
    }
    call.command.candidate.candidate_id = CandidateId(call.command.candidate);
    valid->push_back(std::move(call));
  }
  if (valid->empty()) return;
  const auto handle = [this, valid] {
    for (EvaluateCall& call : *valid) {
      HandleEvaluate(std::move(call.command), std::move(call.done));
    }
  };
  if (!inbox_->Post(handle, valid->size())) {
    for (const EvaluateCall& call : *valid) {
      call.done(absl::UnavailableError("the orchestrator is stopping"));
    }
  }
}

absl::Status Engine::Admit(const EvaluateCommand& command) const {
  if (draining_) {
    return absl::UnavailableError("the orchestrator is draining");
  }
  const Candidate& candidate = command.candidate;
  if (!command.search_id.empty() && !command.device_models.empty()) {
    return absl::InvalidArgumentError(
        "device_models: is not allowed with a search_id, whose device model applies");
  }
  auto problem = state_.FindProblem(candidate.problem_id);
  if (problem == nullptr) {
    return absl::NotFoundError(absl::StrCat("candidate.problem_id: '", candidate.problem_id,
                                            "' is not known; put the problem first"));
  }
  if (!problem->targets.contains(candidate.target)) {
    return absl::InvalidArgumentError(absl::StrCat("candidate.target: problem ", problem->name,
                                                   " has no reference for '", candidate.target,
                                                   "'"));
  }
  if (!command.search_id.empty()) {
    const Search* search = state_.FindSearch(command.search_id);
    if (search == nullptr) {
      return absl::NotFoundError(absl::StrCat("search_id: '", command.search_id, "' is not known"));
    }
    if (search->status != SearchStatus::kRunning) {
      return absl::FailedPreconditionError(
          absl::StrCat("search_id: '", command.search_id, "' has ended"));
    }
    if (search->spec.problem_id != candidate.problem_id ||
        search->spec.target != candidate.target) {
      return absl::InvalidArgumentError(absl::StrCat("candidate: search ", command.search_id,
                                                     " is for problem ", search->spec.problem_id,
                                                     " on ", search->spec.target));
    }
  }
  if (state_.evaluations().size() >= options_.max_live_evaluations) {
    return absl::ResourceExhaustedError(absl::StrCat("there are ", state_.evaluations().size(),
                                                     " evaluations in flight, the limit is ",
                                                     options_.max_live_evaluations));
  }
  return absl::OkStatus();
}

void Engine::HandleEvaluate(EvaluateCommand command, EvaluateDone done) {
  auto answer = [&](absl::StatusOr<EvaluationRecord> result) {
    AfterCommit([done = std::move(done), result = std::move(result)] { done(result); });
  };
  if (IsAboutSeveral(command)) return EvaluateOnEach(std::move(command), std::move(done));
  const std::string wanted = command.device_models.empty() ? "" : command.device_models.front();
  auto same_request = [&](const auto& earlier) -> absl::Status {
    if (earlier.candidate.candidate_id == command.candidate.candidate_id &&
        earlier.search_id == command.search_id && earlier.mode == command.mode &&
        earlier.wanted_device_model == wanted) {
      return absl::OkStatus();
    }
    return absl::AlreadyExistsError(
        absl::StrCat("request_id: '", command.request_id, "' was used for candidate ",
                     earlier.candidate.candidate_id,
                     "; another candidate, search, mode or device model needs another id"));
  };

  if (const Evaluation* live = state_.FindEvaluation(command.request_id)) {
    if (absl::Status same = same_request(*live); !same.ok()) return answer(same);
    waiters_[command.request_id].push_back(std::move(done));
    return;
  }
  if (settling_.contains(command.request_id)) {
    unreadable_.emplace_back(std::move(command), std::move(done));
    return;
  }
  const Search* search = command.search_id.empty() ? nullptr : state_.FindSearch(command.search_id);
  const CandidateHistory* history = nullptr;
  if (search != nullptr && command.mode != EvaluateMode::kFinal) {
    const auto known = search->history.find(command.candidate.candidate_id);
    if (known != search->history.end()) history = &known->second;
  }
  const bool measured_before =
      history != nullptr && history->standing == CandidateHistory::Standing::kMeasured;
  const bool reads = measured_before || state_.MayHaveAccepted(command.request_id);
  if (reads && !inbox_->may_block) {
    // Shared because tasks must be copyable.
    const auto again =
        std::make_shared<EvaluateCall>(EvaluateCall{std::move(command), std::move(done)});
    if (!inbox_->PostToThread(
            [this, again] { HandleEvaluate(std::move(again->command), std::move(again->done)); })) {
      again->done(absl::UnavailableError("the orchestrator is stopping"));
    }
    return;
  }
  absl::StatusOr<std::vector<StoredEvent>> earlier = std::vector<StoredEvent>();
  if (state_.MayHaveAccepted(command.request_id)) {
    earlier = store_->ReadEvaluation(command.request_id);
  }
  if (!earlier.ok()) {
    return answer(earlier.status());
  }
  if (std::optional<EvaluationRecord> record = FoldEvaluation(*earlier)) {
    if (absl::Status same = same_request(*record); !same.ok()) return answer(same);
    return answer(*std::move(record));
  }
  if (absl::Status admitted = Admit(command); !admitted.ok()) {
    return answer(admitted);
  }

  std::string duplicate_of;
  if (history != nullptr && history->standing == CandidateHistory::Standing::kInFlight) {
    duplicate_of = history->request_id;
  }
  if (measured_before) {
    const std::string earlier_request = history->request_id;
    if (settling_.contains(earlier_request)) {
      unreadable_.emplace_back(std::move(command), std::move(done));
      return;
    }
    waiters_[command.request_id].push_back(std::move(done));
    if (ReuseMeasurement(command, earlier_request)) return;
    done = std::move(waiters_[command.request_id].back());
    waiters_.erase(command.request_id);
  }
  std::string budget = search != nullptr ? ExhaustedBudget(*search) : "";
  if (!budget.empty() && GoesOnAfter(*search, budget)) budget.clear();
  waiters_[command.request_id].push_back(std::move(done));
  Accept(command.request_id, command.search_id, command.mode, std::move(command.candidate), false,
         command.trace, wanted);
  if (!duplicate_of.empty()) {
    Rejection rejection;
    rejection.cause = Rejection::Cause::kDuplicate;
    rejection.detail = duplicate_of;
    Reject(command.request_id, DecisionReason::kDuplicate, std::move(rejection));
  } else if (!budget.empty()) {
    Rejection rejection;
    rejection.cause = Rejection::Cause::kBudget;
    rejection.detail = budget;
    Reject(command.request_id, DecisionReason::kBudget, std::move(rejection));
  } else {
    Advance(command.request_id);
  }
}

bool Engine::ReuseMeasurement(const EvaluateCommand& command,
                              const std::string& earlier_request_id) {
  absl::StatusOr<std::vector<StoredEvent>> events = store_->ReadEvaluation(earlier_request_id);
  if (!events.ok()) return false;
  std::optional<EvaluationRecord> record = FoldEvaluation(*events);
  if (!record || !std::holds_alternative<Measurement>(record->result)) return false;
  Accept(command.request_id, command.search_id, command.mode, command.candidate, false,
         command.trace);
  Decision decision = record->decision;
  decision.kind = DecisionKind::kMeasure;
  decision.reason = DecisionReason::kReused;
  decision.audit_propensity = 1;
  Emit(EvaluationDecided{command.request_id, decision});
  EvaluationSettled settled;
  settled.request_id = command.request_id;
  settled.result = std::get<Measurement>(record->result);
  settled.reused = true;
  Settle(std::move(settled), /*decided_now=*/true);
  return true;
}

void Engine::StartSearch(std::string search_id, SearchSpec spec, SearchDone done,
                         TraceContext trace) {
  absl::Status valid = search_id.empty() ? absl::OkStatus() : CheckId("search_id", search_id);
  if (valid.ok()) valid = MakePolicy(spec.policy, spec.policy_parameters).status();
  if (!valid.ok()) {
    done(valid);
    return;
  }
  if (spec.policy.empty()) spec.policy = std::string(kDefaultPolicy);
  auto shared_done = std::make_shared<SearchDone>(std::move(done));
  if (!inbox_->Post([this, id = std::move(search_id), spec = std::move(spec), shared_done,
                     trace = std::move(trace)]() mutable {
        HandleStartSearch(std::move(id), std::move(spec), std::move(*shared_done), trace);
      })) {
    (*shared_done)(absl::UnavailableError("the orchestrator is stopping"));
  }
}

void Engine::HandleStartSearch(std::string search_id, SearchSpec spec, SearchDone done,
                               const TraceContext& trace) {
  if (search_id.empty()) search_id = RandomId("s_");
  absl::StatusOr<SearchSnapshot> result = absl::InternalError("");
  if (spec.device_models.size() <= 1) {
    result = CreateSearch(search_id, std::move(spec), trace);
  } else {
    for (const std::string& model : spec.device_models) {
      SearchSpec one = spec;
      one.device_models = {model};
      result = CreateSearch(IdForDevice(search_id, model), std::move(one), trace);
      if (!result.ok()) break;
    }
    if (result.ok()) result = SnapshotAll(search_id);
  }
  AfterCommit([done = std::move(done), result = std::move(result)] { done(result); });
}

absl::StatusOr<SearchSnapshot> Engine::CreateSearch(const std::string& search_id, SearchSpec spec,
                                                    const TraceContext& trace) {
  if (const Search* existing = state_.FindSearch(search_id)) {
    if (existing->spec == spec) return SnapshotOf(*existing);
    return absl::AlreadyExistsError(absl::StrCat(
        "search_id: '", search_id, "' is in use by a search with another specification"));
  }
  if (draining_) return absl::UnavailableError("the orchestrator is draining");
  auto problem = state_.FindProblem(spec.problem_id);
  if (problem == nullptr) {
    return absl::NotFoundError(absl::StrCat("spec.problem_id: '", spec.problem_id,
                                            "' is not known; put the problem first"));
  }
  auto target = problem->targets.find(spec.target);
  if (target == problem->targets.end()) {
    return absl::InvalidArgumentError(absl::StrCat("spec.target: problem ", problem->name,
                                                   " has no reference for '", spec.target, "'"));
  }
  if (spec.generator == GeneratorKind::kLlm) {
    if (writer_ == nullptr) {
      return absl::FailedPreconditionError(
          "spec.generator: this orchestrator was started without a language model (--llm); "
          "template and external are allowed");
    }
    if (spec.budget == Budget{} && spec.generator_limits.max_requests == 0 &&
        spec.generator_limits.max_tokens == 0) {
      return absl::InvalidArgumentError(
          "spec.budget: at least one limit, of the budget or of the generator, must be set");
    }
  }
  if (spec.generator == GeneratorKind::kTemplate) {
    if (!target->second.space) {
      return absl::InvalidArgumentError(absl::StrCat("spec.generator: problem ", problem->name,
                                                     " has no template space for target '",
                                                     spec.target, "'"));
    }
    if (spec.budget == Budget{}) {
      return absl::InvalidArgumentError(
          "spec.budget: at least one limit must be set for a template search");
    }
  }
  std::string device_model =
      DeviceModelFor(spec.target, spec.device_models.empty() ? "" : spec.device_models.front());
  Emit(SearchCreated{search_id, std::move(spec), std::move(device_model)});
  const Search& search = *state_.FindSearch(search_id);
  traces_.BeginSearch(search, trace);
  const TraceScope scope(&trace);
  Log(LogLevel::kInfo, "search started",
      {{"search_id", search_id}, {"problem", problem->name}, {"device", search.device_model}});
  return SnapshotOf(search);
}

void Engine::StopSearch(std::string search_id, SearchDone done) {
  Post([this, id = std::move(search_id), done = std::move(done)] {
    for (const Search* search : SearchesOf(id)) {
      if (search->ended_ns == 0 && !search->stopped) {
        Emit(SearchFinishing{search->search_id, std::string(kStoppedReason)});
      }
    }
    AfterCommit([done, result = SnapshotAll(id)] { done(result); });
  });
}

void Engine::GetSearch(std::string search_id, SearchDone done) {
  Post([this, id = std::move(search_id), done = std::move(done)] {
    AfterCommit([done, result = SnapshotAll(id)] { done(result); });
  });
}

void Engine::ListSearches(SearchesDone done) {
  Post([this, done = std::move(done)] {
    std::vector<SearchSnapshot> result;
    for (const auto& [id, search] : state_.searches()) result.push_back(SnapshotOf(search));
    AfterCommit([done, result = std::move(result)] { done(result); });
  });
}

void Engine::CapacityChanged() {
  Post([this] {
    device_models_.clear();
    dirty_searches_.insert(state_.open_searches().begin(), state_.open_searches().end());
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

EngineFigures Engine::figures() const {
  std::lock_guard lock(mutex_);
  return figures_;
}

absl::Status Engine::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Engine::DigestState(DigestDone done) {
  Post([this, done = std::move(done)] {
    AfterCommit([done, sequence = state_.last_sequence(), digest = state_.DigestHash()] {
      done(sequence, digest);
    });
  });
}

void Engine::SetFailureCallback(std::function<void()> callback) {
  std::lock_guard lock(mutex_);
  failure_callback_ = std::move(callback);
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

// --- The life of an evaluation ----------------------------------------------------------------

void Engine::Accept(const std::string& request_id, const std::string& search_id, EvaluateMode mode,
                    Candidate candidate, bool generated, const TraceContext& trace,
                    const std::string& wanted_device_model) {
  EvaluationAccepted accepted;
  accepted.request_id = request_id;
  accepted.search_id = search_id;
  accepted.mode = mode;
  accepted.candidate = std::move(candidate);
  accepted.generated = generated;
  const Search* const search = search_id.empty() ? nullptr : state_.FindSearch(search_id);
  accepted.device_model = search != nullptr
                              ? search->device_model
                              : DeviceModelFor(accepted.candidate.target, wanted_device_model);
  accepted.wanted_device_model = wanted_device_model;
  if (!Emit(std::move(accepted))) return;
  traces_.Begin(*state_.FindEvaluation(request_id), trace);
  EndAfterwards(traces_.Part(request_id, "kernelcast.accept"));
}

void Engine::EndAfterwards(Span span) {
  if (!span.recording()) return;
  // Shared because effects must be copyable.
  AfterCommit([kept = std::make_shared<Span>(std::move(span))] { kept->End(); });
}

void Engine::Advance(const std::string& request_id) {
  const Evaluation* evaluation = state_.FindEvaluation(request_id);
  if (evaluation == nullptr || acting_.contains(request_id)) {
    return;
  }
  const bool settled =
      evaluation->decision.has_value() && evaluation->decision->kind != DecisionKind::kMeasure;
  if (!settled && CrashJournal::SetsAside(options_.crash_journal,
                                          HandlingName(evaluation->stage, request_id))) {
    Rejection rejection;
    rejection.cause = Rejection::Cause::kUnavailable;
    rejection.detail = std::string(kSetAside);
    Log(LogLevel::kError, kSetAside, {{"request_id", request_id}});
    return Reject(request_id, DecisionReason::kUnavailable, std::move(rejection));
  }
  if (!settled && !HasDevice(*evaluation)) return;
  switch (evaluation->stage) {
    case Stage::kCompile: return StartCompile(*evaluation);
    case Stage::kForecast: return StartForecast(*evaluation);
    case Stage::kDecide: return Decide(request_id);
    case Stage::kMeasure:
      if (evaluation->decision->kind == DecisionKind::kMeasure) return StartMeasure(*evaluation);
      // A crash happened between the decision and its settlement.
      if (evaluation->decision->kind == DecisionKind::kPrune) {
        return Settle(EvaluationSettled{request_id, Pruned{}, false});
      }
      Rejection rejection;
      rejection.cause = Rejection::Cause::kUnavailable;
      rejection.detail = "the reason was lost in a crash";
      return Settle(EvaluationSettled{request_id, std::move(rejection), false});
  }
}

void Engine::StartCompile(const Evaluation& evaluation) {
  acting_.insert(evaluation.request_id);
  RunNow([this, id = evaluation.request_id, candidate = evaluation.candidate,
          device_model = evaluation.device_model,
          problem = state_.FindProblem(evaluation.candidate.problem_id)] {
    traces_.BeginStage(id, "kernelcast.compile");
    const TraceScope scope(traces_.Of(id));
    workers_->Compile(id, problem, candidate, device_model,
                      [this, inbox = inbox_, id](absl::StatusOr<CompileResult> result) {
                        inbox->Post([this, id, result = std::move(result)]() mutable {
                          OnCompiled(id, std::move(result));
                        });
                      });
  });
}

void Engine::OnCompiled(const std::string& request_id, absl::StatusOr<CompileResult> result) {
  const CrashJournal::Hold hold(options_.crash_journal, HandlingName(Stage::kCompile, request_id));
  acting_.erase(request_id);
  traces_.EndStage(request_id, result.status());
  const Evaluation* evaluation = state_.FindEvaluation(request_id);
  if (evaluation == nullptr || evaluation->stage != Stage::kCompile) {
    return;
  }
  if (!result.ok()) {
    Rejection rejection;
    rejection.cause = Rejection::Cause::kUnavailable;
    rejection.detail = absl::StrCat("compile: ", std::string(result.status().message()));
    return Reject(request_id, DecisionReason::kUnavailable, std::move(rejection));
  }
  if (auto* error = std::get_if<CompileError>(&*result)) {
    Emit(EvaluationCompiled{request_id, *error, {}});
    Rejection rejection;
    rejection.cause = Rejection::Cause::kCompileError;
    rejection.compile_error = std::move(*error);
    return Reject(request_id, DecisionReason::kCompileError, std::move(rejection));
  }
  auto& compiled = std::get<CompiledCandidate>(*result);
  EvaluationCompiled event{request_id, std::move(compiled.facts), std::move(compiled.artifact)};
  event.artifact.content.clear();
  Emit(std::move(event));
  Advance(request_id);
}

void Engine::DescribeReference(const std::string& problem_id, const std::string& target,
                               const std::string& device_model) {
  if (!describing_references_.emplace(problem_id, target, device_model).second) {
    return;
  }
  RunNow([this, problem_id, target, device_model, problem = state_.FindProblem(problem_id)] {
    workers_->CompileReference(
        problem, target, device_model,
        [this, inbox = inbox_, problem_id, target,
         device_model](absl::StatusOr<CompileResult> result) {
          inbox->Post(
              [this, problem_id, target, device_model, result = std::move(result)]() mutable {
                OnReferenceDescribed(problem_id, target, device_model, std::move(result));
              });
        });
  });
}

void Engine::OnReferenceDescribed(const std::string& problem_id, const std::string& target,
                                  const std::string& device_model,
                                  absl::StatusOr<CompileResult> result) {
  describing_references_.erase({problem_id, target, device_model});
  std::string failure;
  if (!result.ok()) {
    failure = std::string(result.status().message());
  } else if (const auto* error = std::get_if<CompileError>(&*result)) {
    failure =
        absl::StrCat("the problem's reference does not compile: ", error->log.substr(0, 2000));
  } else {
    auto& compiled = std::get<CompiledCandidate>(*result);
    Emit(ReferenceDescribed{problem_id, target, std::move(compiled.facts),
                            compiled.artifact.toolchain, device_model});
  }
  std::vector<std::string> waiting;
  for (std::string& id : state_.EvaluationIds()) {
    const Evaluation& evaluation = *state_.FindEvaluation(id);
    if (evaluation.stage == Stage::kForecast && evaluation.candidate.problem_id == problem_id &&
        evaluation.candidate.target == target && evaluation.device_model == device_model) {
      waiting.push_back(std::move(id));
    }
  }
  if (failure.empty()) {
    for (const std::string& id : waiting) Advance(id);
    return;
  }
  Log(LogLevel::kWarning, "reference cannot be described",
      {{"problem_id", problem_id}, {"target", target}, {"error", failure}});
  for (const std::string& id : waiting) {
    Rejection rejection;
    rejection.cause = Rejection::Cause::kUnavailable;
    rejection.detail = failure;
    Reject(id, DecisionReason::kUnavailable, std::move(rejection));
  }
  std::vector<std::string> hopeless;
  for (const std::string& id : state_.open_searches()) {
    const Search& search = *state_.FindSearch(id);
    if (search.spec.problem_id == problem_id && search.spec.target == target &&
        search.device_model == device_model) {
      hopeless.push_back(id);
    }
  }
  for (const std::string& id : hopeless) Emit(SearchClosed{id, "", true, failure});
}

void Engine::StartForecast(const Evaluation& evaluation) {
  const Search* search = state_.FindSearch(evaluation.search_id);
  const bool unwanted = evaluation.mode == EvaluateMode::kFinal ||
                        (search != nullptr && search->spec.measure_everything);
  if (unwanted) {
    return Decide(evaluation.request_id);
  }
  const ReferenceDescribed* reference = state_.FindReference(
      evaluation.candidate.problem_id, evaluation.candidate.target, evaluation.device_model);
  if (reference == nullptr) {
    return DescribeReference(evaluation.candidate.problem_id, evaluation.candidate.target,
                             evaluation.device_model);
  }
  acting_.insert(evaluation.request_id);
  ForecastQuery query{evaluation.candidate, evaluation.facts, reference->facts,
                      evaluation.search_id,
                      search != nullptr ? search->spec.max_forecast_tokens : 0};
  query.device_model = evaluation.device_model;
  query.anchor = AnchorFor(evaluation.candidate, search, evaluation.device_model);
  RunNow([this, id = evaluation.request_id, query = std::move(query),
          problem = state_.FindProblem(evaluation.candidate.problem_id)] {
    traces_.BeginStage(id, "kernelcast.forecast");
    const TraceScope scope(traces_.Of(id));
    forecasters_->Forecast(problem, query,
                           [this, inbox = inbox_, id](absl::StatusOr<ForecastResult> result) {
                             inbox->Post([this, id, result = std::move(result)]() mutable {
                               OnForecast(id, std::move(result));
                             });
                           });
  });
}

void Engine::OnForecast(const std::string& request_id, absl::StatusOr<ForecastResult> result) {
  const CrashJournal::Hold hold(options_.crash_journal, HandlingName(Stage::kForecast, request_id));
  acting_.erase(request_id);
  traces_.EndStage(request_id, result.status());
  const Evaluation* evaluation = state_.FindEvaluation(request_id);
  if (evaluation == nullptr || evaluation->stage != Stage::kForecast) {
    return;
  }
  EvaluationForecast event;
  event.request_id = request_id;
  if (result.ok()) {
    if (auto* forecast = std::get_if<Forecast>(&*result)) {
      if (absl::Status valid = ValidateForecast(*forecast); valid.ok()) {
        event.result = std::move(*forecast);
      } else {
        event.result = Abstention{Abstention::Cause::kUnparsable, forecast->backend,
                                  std::string(valid.message())};
      }
    } else {
      event.result = std::get<Abstention>(*result);
    }
  } else {
    event.result = Abstention{Abstention::Cause::kEndpointUnavailable, "",
                              std::string(result.status().message())};
  }
  Emit(std::move(event));
  Advance(request_id);
}

Decision Engine::MakeDecision(const Evaluation& evaluation) const {
  const Search* search = state_.FindSearch(evaluation.search_id);
  const Policy& policy =
      search != nullptr && search->policy != nullptr ? *search->policy : DefaultPolicy();

  PolicyInput input;
  if (search != nullptr) {
    input = CountsFor(*search);
  } else if (const ProblemHistory* history =
                 state_.FindHistory(evaluation.candidate.problem_id, evaluation.candidate.target,
                                    evaluation.device_model)) {
    input = history->Input();
  }
  input.forecast = evaluation.forecast ? &*evaluation.forecast : nullptr;
  input.declined = evaluation.declined;
  input.reconsidered = evaluation.reconsidered;
  input.audit_draw = AuditDraw(search != nullptr ? search->spec.seed : 0, evaluation.request_id);
  const bool selectable = search != nullptr && search->generator != nullptr &&
                          evaluation.generated &&
                          search->generator->Has(evaluation.candidate.candidate_id);
  if (selectable) {
    input.start = search->generator->IsStart(evaluation.candidate.candidate_id);
  } else {
    // A candidate outside the space is settled now, because no selection will consider it again.
    input.selects = false;
  }

  Decision decision = policy.Decide(input);
  auto overrule = [&](DecisionReason reason) {
    decision.reason = reason;
    decision.kind = KindOf(reason);
    decision.audit_propensity = decision.kind == DecisionKind::kMeasure ? 1 : 0;
    decision.audited_reason.reset();
  };
  if (evaluation.mode == EvaluateMode::kForecast) {
    overrule(evaluation.forecast ? DecisionReason::kForecastOnly : DecisionReason::kUnavailable);
  } else if (evaluation.mode != EvaluateMode::kRoute ||
             (search != nullptr && search->spec.measure_everything)) {
    overrule(DecisionReason::kRequested);
  }
  const bool confirmation = evaluation.mode == EvaluateMode::kFinal && evaluation.generated;
  if (search == nullptr || confirmation) return decision;
  const std::string limit = ExhaustedBudget(*search);
  if (limit.empty()) return decision;
  // No audit is possible any more.
  decision.audit_propensity = 0;
  if (GoesOnAfter(*search, limit)) {
    if (evaluation.mode == EvaluateMode::kForecast) return decision;
    overrule(DecisionReason::kBudget);
    if (evaluation.forecast) decision.kind = DecisionKind::kPrune;
  } else if (decision.kind == DecisionKind::kMeasure) {
    overrule(evaluation.forecast ? DecisionReason::kBudgetPace : DecisionReason::kBudget);
  }
  return decision;
}

void Engine::Decide(const std::string& request_id) {
  const Evaluation* evaluation = state_.FindEvaluation(request_id);
  Span span = traces_.Part(request_id, "kernelcast.decide");
  const Decision decision = MakeDecision(*evaluation);
  if (span.recording()) {
    span.Set("kernelcast.decision", std::string(Name(decision.kind)));
    span.Set("kernelcast.reason", std::string(Name(decision.reason)));
    span.Set("kernelcast.win_probability", decision.win_probability);
    EndAfterwards(std::move(span));
  }
  if (decision.kind == DecisionKind::kReject) {
    Rejection rejection;
    if (decision.reason == DecisionReason::kBudget) {
      rejection.cause = Rejection::Cause::kBudget;
      rejection.detail = ExhaustedBudget(*state_.FindSearch(evaluation->search_id));
    } else {
      rejection.cause = Rejection::Cause::kUnavailable;
      rejection.detail = "no forecast was available";
    }
    return Reject(request_id, decision.reason, std::move(rejection));
  }
  if (!Emit(EvaluationDecided{request_id, decision})) return;
  if (decision.kind == DecisionKind::kPrune) {
    return Settle(EvaluationSettled{request_id, Pruned{}, false}, /*decided_now=*/true);
  }
  if (observer_ != nullptr) {
    AfterCommit(
        [this, evaluation = *evaluation, decision] { observer_->OnDecided(evaluation, decision); });
  }
  Advance(request_id);
}

void Engine::Reject(const std::string& request_id, DecisionReason reason, Rejection rejection) {
  const Evaluation* evaluation = state_.FindEvaluation(request_id);
  if (evaluation == nullptr) return;
  const bool decided_now = !evaluation->decision.has_value();
  if (decided_now) {
    Decision decision;
    decision.kind = DecisionKind::kReject;
    decision.reason = reason;
    Emit(EvaluationDecided{request_id, decision});
  }
  Settle(EvaluationSettled{request_id, std::move(rejection), false}, decided_now);
}

void Engine::StartMeasure(const Evaluation& evaluation) {
  acting_.insert(evaluation.request_id);
  const MeasureLevel level =
      evaluation.mode == EvaluateMode::kFinal ? MeasureLevel::kFinal : MeasureLevel::kScreen;
  AfterCommit([this, id = evaluation.request_id, candidate = evaluation.candidate, level,
               device_model = evaluation.device_model,
               problem = state_.FindProblem(evaluation.candidate.problem_id)] {
    traces_.BeginStage(id, "kernelcast.measure");
    const TraceScope scope(traces_.Of(id));
    workers_->Measure(id, problem, candidate, device_model, level,
                      [this, inbox = inbox_, id](absl::StatusOr<MeasureResult> result) {
                        inbox->Post([this, id, result = std::move(result)]() mutable {
                          OnMeasured(id, std::move(result));
                        });
                      });
  });
}

void Engine::OnMeasured(const std::string& request_id, absl::StatusOr<MeasureResult> result) {
  const CrashJournal::Hold hold(options_.crash_journal, HandlingName(Stage::kMeasure, request_id));
  acting_.erase(request_id);
  traces_.EndStage(request_id, result.status());
  const Evaluation* evaluation = state_.FindEvaluation(request_id);
  if (evaluation == nullptr || evaluation->stage != Stage::kMeasure) {
    return;
  }
  EvaluationSettled settled;
  settled.request_id = request_id;
  if (!result.ok()) {
    Rejection rejection;
    rejection.cause = Rejection::Cause::kUnavailable;
    rejection.detail = absl::StrCat("measure: ", std::string(result.status().message()));
    settled.result = std::move(rejection);
  } else if (auto* error = std::get_if<CompileError>(&*result)) {
    Rejection rejection;
    rejection.cause = Rejection::Cause::kCompileError;
    rejection.compile_error = std::move(*error);
    settled.result = std::move(rejection);
  } else {
    auto& measurement = std::get<Measurement>(*result);
    if (std::holds_alternative<EnvironmentUnstable>(measurement.outcome) &&
        unstable_counts_[request_id]++ < options_.unstable_retries) {
      return StartMeasure(*evaluation);
    }
    settled.result = std::move(measurement);
  }
  unstable_counts_.erase(request_id);
  Settle(std::move(settled));
}

void Engine::Settle(EvaluationSettled settled, bool decided_now) {
  const Evaluation* live = state_.FindEvaluation(settled.request_id);
  if (live == nullptr) return;
  // Shared by the effects below.
  const auto kept = std::make_shared<const Evaluation>(*live);
  const Evaluation& evaluation = *kept;
  Span commit = traces_.Part(settled.request_id, "kernelcast.commit");
  if (!Emit(settled)) return;
  acting_.erase(settled.request_id);
  settling_.insert(settled.request_id);
  batch_.settled.push_back(settled.request_id);
  EndAfterwards(std::move(commit));
  EndAfterwards(traces_.Settle(evaluation, settled));
  if (observer_ != nullptr) {
    AfterCommit([this, kept, settled, decided_now] {
      if (decided_now) observer_->OnDecided(*kept, *kept->decision);
      observer_->OnSettled(*kept, settled);
    });
  }
  if (!waiters_.contains(settled.request_id)) return;
  AfterCommit([this, record = MakeRecord(evaluation, settled, batch_.events.back()->time_ns,
                                         state_.last_sequence())]() mutable {
    auto waiting = waiters_.extract(record.request_id);
    std::vector<EvaluateDone>& dones = waiting.mapped();
    for (size_t i = 1; i < dones.size(); ++i) dones[i](record);
    dones.front()(std::move(record));
  });
}

// --- Searches ---------------------------------------------------------------------------------

PolicyInput Engine::CountsFor(const Search& search) const {
  PolicyInput input;
  if (search.incumbent) {
    // At least 1: a candidate that only beats an incumbent slower than the reference is not a win.
    input.incumbent_speedup = std::max(1.0, MeasuredSpeedup(search.incumbent->measurement)->value);
  }
  input.measured = search.counts.measurements;
  input.measuring = search.measuring;
  input.max_measurements = search.spec.budget.max_measurements;
  input.decided = search.counts.considered -
                  std::min(search.counts.considered, search.in_flight - search.measuring);
  input.expected_decisions = ExpectedDecisions(search);
  input.history = &search.routes;
  if (search.generator != nullptr) {
    input.selects = true;
    input.start_size = search.generator->start_size();
  }
  return input;
}

bool Engine::MaySelect(const Search& search) const {
  if (search.spec.budget.max_wall_time_ns > 0) return true;
  return search.policy->MaySelect(CountsFor(search));
}

uint64_t Engine::LookAhead(const Search& search) const {
  const auto rerank = reranks_.find(search.search_id);
  return kLookAhead + kLookAheadPerMeasurement * (search.counts.measurements + search.measuring) +
         (rerank == reranks_.end() ? 0 : rerank->second.further);
}

uint64_t Engine::ExpectedDecisions(const Search& search) const {
  uint64_t expected = search.spec.budget.max_candidates;
  if (search.generation != nullptr) {
    const uint64_t requests = search.spec.generator_limits.max_requests;
    if (requests > 0) expected = expected == 0 ? requests : std::min(expected, requests);
  } else if (search.generator != nullptr) {
    const uint64_t space = std::min<uint64_t>(search.generator->space_size(), kLookAhead);
    expected = expected == 0 ? space : std::min(expected, space);
  }
  return expected;
}

std::string Engine::ExhaustedBudget(const Search& search) const {
  const Budget& budget = search.spec.budget;
  if (budget.max_measurements > 0 &&
      search.counts.measurements + search.measuring >= budget.max_measurements) {
    return "max_measurements";
  }
  if (budget.max_device_time_ns > 0 &&
      search.counts.device_time_spent_ns - search.counts.device_time_confirming_ns >=
          budget.max_device_time_ns) {
    return "max_device_time";
  }
  if (budget.max_wall_time_ns > 0 && NowNs() - search.started_ns >= budget.max_wall_time_ns) {
    return "max_wall_time";
  }
  if (search.spec.generator == GeneratorKind::kExternal && budget.max_candidates > 0 &&
      search.counts.considered > budget.max_candidates) {
    return "max_candidates";
  }
  return "";
}

bool Engine::GoesOnAfter(const Search& search, const std::string& limit) {
  return search.spec.generator == GeneratorKind::kExternal &&
         (limit == "max_measurements" || limit == "max_device_time");
}

void Engine::DriveSearches() {
  std::set<std::string> dirty;
  dirty.swap(dirty_searches_);
  for (const std::string& search_id : dirty) {
    const Search* search = state_.FindSearch(search_id);
    // Proposing and ranking take milliseconds for large spaces.
    if (!inbox_->may_block && search != nullptr &&
        (search->generator != nullptr || search->generation != nullptr)) {
      dirty_searches_.insert(search_id);
      inbox_->searches_wait = true;
      continue;
    }
    DriveSearch(search_id);
  }
}

void Engine::DriveSearch(const std::string& search_id) {
  const Search* search = state_.FindSearch(search_id);
  if (search == nullptr || search->ended_ns != 0 || draining_) {
    return;
  }
  if (!CheckDevice(search_id)) return;
  if (search->status == SearchStatus::kRunning) {
    const std::string budget = ExhaustedBudget(*search);
    if (!budget.empty() && !GoesOnAfter(*search, budget)) {
      Emit(SearchFinishing{search_id, absl::StrCat("budget: ", budget)});
    } else if (search->generation != nullptr) {
      AskForKernels(search_id);
    } else if (search->generator != nullptr) {
      Propose(search_id);
    }
    return;
  }
  StopWriting(search_id);
  if (search->in_flight == 0) {
    Confirm(search_id);
  }
}

void Engine::Propose(const std::string& search_id) {
  const Search& search = *state_.FindSearch(search_id);
  // Also if no forecast needs it, because the search's labels and records contain its facts.
  const SearchSpec& spec = search.spec;
  if (state_.FindReference(spec.problem_id, spec.target, search.device_model) == nullptr) {
    DescribeReference(spec.problem_id, spec.target, search.device_model);
  }
  const Workers::Capacity capacity = workers_->CapacityFor(spec.target, search.device_model);
  const uint64_t slots = std::max<uint64_t>(1, capacity.measure_slots);
  const uint64_t limit = InFlightLimit(search);
  const uint64_t max_candidates = search.spec.budget.max_candidates;
  const uint64_t look_ahead = LookAhead(search);
  bool all_proposed = false;
  while (true) {
    all_proposed = search.generator->proposed() >= search.generator->space_size() ||
                   (max_candidates > 0 && search.counts.considered >= max_candidates);
    // Only enough to keep the workers busy, because later decisions know more.
    if (all_proposed || search.in_flight >= limit || search.measuring >= 2 * slots) break;
    if (!search.spec.measure_everything && search.counts.considered >= look_ahead) break;
    const std::string request_id = absl::StrCat(search_id, "/", search.counts.proposed + 1);
    Accept(request_id, search_id,
           search.spec.measure_everything ? EvaluateMode::kMeasure : EvaluateMode::kRoute,
           *search.generator->Next(), true);
    Advance(request_id);
  }
  if (search.spec.measure_everything) {
    if (all_proposed && search.in_flight == 0) {
      FinishSpace(search);
    }
    return;
  }
  // If measurements are limited, each is chosen with the results of all before it. If only time is
  // limited, the next one already waits at the device.
  const uint64_t ahead = search.spec.budget.max_measurements > 0 ? 0 : slots;
  if (search.measuring < slots + ahead && MaySelect(search)) {
    Rerank(search_id);
  }
}

uint64_t Engine::InFlightLimit(const Search& search) const {
  if (search.spec.max_in_flight > 0) return search.spec.max_in_flight;
  const Workers::Capacity capacity = workers_->CapacityFor(search.spec.target, search.device_model);
  return std::max<uint64_t>(2, capacity.compile_credits) +
         2 * std::max<uint64_t>(1, capacity.measure_slots);
}

// --- Kernels that a model writes --------------------------------------------------------------

Engine::Asking Engine::AskingOf(const Search& search) const {
  const Generation& generation = *search.generation;
  const GenerationCounts& counts = search.counts.generation;
  const GeneratorLimits& limits = search.spec.generator_limits;
  // Unanswered requests cost nothing.
  if (limits.max_requests > 0 && counts.requested - counts.unanswered >= limits.max_requests) {
    return {Asking::Kind::kSpent, "budget: generator_requests"};
  }
  if (limits.max_tokens > 0) {
    const uint64_t spent = counts.input_tokens + counts.output_tokens;
    const uint64_t answered = counts.written + counts.duplicates + counts.unusable;
    // Assume that requests in progress cost as much as the others did.
    const uint64_t pending = answered == 0 ? 0 : spent / answered * generation.in_flight.size();
    if (spent + pending >= limits.max_tokens) {
      return {Asking::Kind::kSpent, "budget: generator_tokens"};
    }
  }
  if (search.spec.budget.max_candidates > 0 &&
      search.counts.considered + generation.in_flight.size() >= search.spec.budget.max_candidates) {
    return {Asking::Kind::kSpent, "budget: max_candidates"};
  }
  if (writer_ == nullptr) {
    return {Asking::Kind::kNobody, "this orchestrator was started without a language model"};
  }
  if (generation.useless_answers >= kMaxUselessAnswers) {
    return {Asking::Kind::kUseless,
            absl::StrCat("the last ", generation.useless_answers,
                         " answers of the model were unusable: ", generation.reasons.back())};
  }
  if (generation.outages > 0 && NowNs() - generation.away_since_ns >=
                                    absl::ToInt64Nanoseconds(options_.generation_patience)) {
    return {Asking::Kind::kAway, absl::StrCat("the model is away: ", generation.outage)};
  }
  return {};
}

void Engine::FinishSpace(const Search& search) {
  constexpr const char* kNothingLeft = "nothing left worth measuring";
  if (search.generation == nullptr) {
    Emit(SearchFinishing{search.search_id, kNothingLeft});
    return;
  }
  // Waits for a model that is briefly unavailable.
  const Asking asking = AskingOf(search);
  if (asking.kind == Asking::Kind::kYes) return;
  Emit(SearchFinishing{search.search_id, absl::StrCat(kNothingLeft, "; ", asking.reason)});
}

void Engine::AskForKernels(const std::string& search_id) {
  const Search& search = *state_.FindSearch(search_id);
  const Generation& generation = *search.generation;
  const SearchSpec& spec = search.spec;
  if (state_.FindReference(spec.problem_id, spec.target, search.device_model) == nullptr) {
    DescribeReference(spec.problem_id, spec.target, search.device_model);
  }
  // Includes requests from before a crash.
  if (writer_ != nullptr) {
    for (const auto& [number, request] : generation.in_flight) {
      if (!writing_.contains({search_id, number})) StartGeneration(search, number);
    }
  }
  const Asking asking = AskingOf(search);
  const bool without_model = search.generator == nullptr || asking.kind == Asking::Kind::kSpent;
  if (asking.kind != Asking::Kind::kYes && without_model) {
    const bool none_will_answer =
        asking.kind == Asking::Kind::kAway || asking.kind == Asking::Kind::kNobody;
    if (search.in_flight == 0 && (generation.in_flight.empty() || none_will_answer)) {
      Emit(SearchFinishing{search_id, asking.reason});
    }
    if (asking.kind != Asking::Kind::kAway) return;
  }
  const Workers::Capacity capacity = workers_->CapacityFor(spec.target, search.device_model);
  const uint64_t slots = std::max<uint64_t>(1, capacity.measure_slots);
  const uint64_t limit = InFlightLimit(search);
  uint64_t at_once = search.spec.generator_limits.max_in_flight > 0
                         ? search.spec.generator_limits.max_in_flight
                         : kDefaultGenerationsInFlight;
  bool wait = false;
  if (generation.outages > 0) {
    at_once = 1;
    const int64_t backoff_ns = static_cast<int64_t>(std::min(
        static_cast<double>(absl::ToInt64Nanoseconds(options_.max_generation_backoff)),
        std::ldexp(static_cast<double>(absl::ToInt64Nanoseconds(options_.generation_backoff)),
                   static_cast<int>(std::min<uint64_t>(generation.outages - 1, 30)))));
    wait = NowNs() - generation.last_outage_ns < backoff_ns;
  }
  // Answers take long, so some are requested while others are measured, but no more than can be
  // handled when they arrive, because later requests know more. An unavailable model may come back.
  const auto may_ask = [&] {
    const Asking::Kind kind = AskingOf(search).kind;
    return kind == Asking::Kind::kYes || kind == Asking::Kind::kAway;
  };
  // During an outage, candidates of the space in flight do not prevent another request.
  const auto has_room = [&] {
    return generation.outages > 0 ||
           (search.in_flight + generation.in_flight.size() < limit && search.measuring < 2 * slots);
  };
  while (search.status == SearchStatus::kRunning && !wait &&
         generation.in_flight.size() < at_once && has_room() && may_ask()) {
    GenerationRequested requested;
    requested.search_id = search_id;
    requested.number = search.counts.generation.requested + 1;
    requested.parent_candidate_id = generation.archive.ChooseParent();
    const uint64_t number = requested.number;
    if (!Emit(std::move(requested))) return;
    StartGeneration(search, number);
  }
  if (search.status == SearchStatus::kRunning && search.generator != nullptr &&
      (asking.kind != Asking::Kind::kYes || generation.outages >= kOutagesBeforeTemplates)) {
    Propose(search_id);
  }
}

void Engine::StartGeneration(const Search& search, uint64_t number) {
  writing_.emplace(search.search_id, number);
  const Generation& generation = *search.generation;
  const std::string& parent_id = generation.in_flight.at(number).parent_candidate_id;
  GenerationQuery query;
  query.problem = state_.FindProblem(search.spec.problem_id);
  query.target = search.spec.target;
  query.device_model = search.device_model;
  if (const ReferenceDescribed* reference =
          state_.FindReference(search.spec.problem_id, search.spec.target, search.device_model)) {
    query.reference_facts = reference->facts;
  }
  if (const Attempt* parent = generation.archive.Find(parent_id)) query.parent = *parent;
  if (const Attempt* best = generation.archive.Best();
      best != nullptr && best->candidate.candidate_id != parent_id) {
    query.best = *best;
  }
  query.setbacks = generation.archive.Setbacks(parent_id, kReportedSetbacks);
  query.unusable_answers.assign(generation.reasons.begin(), generation.reasons.end());
  int64_t left_ns = absl::ToInt64Nanoseconds(options_.generation_timeout);
  if (search.spec.budget.max_wall_time_ns > 0) {
    left_ns =
        std::min(left_ns, search.spec.budget.max_wall_time_ns - (NowNs() - search.started_ns));
  }
  query.deadline_ns = clock_->MonotonicNs() + std::max<int64_t>(left_ns, 1);
  query.stop = writing_stops_[search.search_id].get_token();
  query.request_id = absl::StrCat(search.search_id, "/", number);
  AfterCommit([this, query = std::move(query), search_id = search.search_id, number,
               trace = traces_.OfSearch(search.search_id)]() mutable {
    const TraceScope scope(&trace);
    writer_->Write(std::move(query),
                   [this, inbox = inbox_, search_id, number](GenerationReply reply) {
                     inbox->Post([this, search_id, number, reply = std::move(reply)]() mutable {
                       OnGenerated(search_id, number, std::move(reply));
                     });
                   });
  });
}

void Engine::OnGenerated(const std::string& search_id, uint64_t number, GenerationReply reply) {
  writing_.erase({search_id, number});
  const Search* search = state_.FindSearch(search_id);
  if (search == nullptr || search->generation == nullptr) return;
  const auto request = search->generation->in_flight.find(number);
  if (request == search->generation->in_flight.end()) return;

  GenerationSettled settled;
  settled.search_id = search_id;
  settled.number = number;
  settled.parent_candidate_id = request->second.parent_candidate_id;
  settled.prompt_version = std::move(reply.prompt_version);
  settled.model = std::move(reply.model);
  settled.endpoint = std::move(reply.endpoint);
  settled.usage = reply.usage;
  settled.latency_ns = reply.latency_ns;
  std::string request_id;
  auto* candidate = std::get_if<Candidate>(&reply.result);
  if (candidate != nullptr) {
    candidate->problem_id = search->spec.problem_id;
    candidate->target = search->spec.target;
    candidate->parent_candidate_id = settled.parent_candidate_id;
    candidate->candidate_id = CandidateId(*candidate);
    const auto& known = search->generation->known;
    if (const absl::Status valid = ValidateCandidate(*candidate); !valid.ok()) {
      settled.outcome = GenerationOutcome::kUnusable;
      settled.detail = std::string(valid.message());
    } else if (const auto same = known.find(NoveltyKey(*candidate)); same != known.end()) {
      settled.outcome = GenerationOutcome::kDuplicate;
      settled.detail = same->second;
    } else {
      request_id = absl::StrCat(search_id, "/", search->counts.proposed + 1);
      settled.outcome = GenerationOutcome::kWritten;
      settled.detail = request_id;
    }
  } else if (const auto* unusable = std::get_if<GenerationReply::Unusable>(&reply.result)) {
    settled.outcome = GenerationOutcome::kUnusable;
    settled.detail = unusable->reason;
  } else {
    settled.outcome = GenerationOutcome::kUnanswered;
    settled.detail = std::get<GenerationReply::Unanswered>(reply.result).reason;
  }
  if (settled.outcome != GenerationOutcome::kWritten) {
    Log(LogLevel::kInfo, "a request for a kernel failed",
        {{"search_id", search_id},
         {"outcome", std::string(Name(settled.outcome))},
         {"detail", settled.detail}});
  }
  if (!Emit(settled)) return;
  if (observer_ != nullptr) AfterCommit([this, settled] { observer_->OnGenerated(settled); });
  if (request_id.empty()) return;
  Accept(request_id, search_id,
         search->spec.measure_everything ? EvaluateMode::kMeasure : EvaluateMode::kRoute,
         std::move(*candidate), true);
  Advance(request_id);
}

void Engine::Rerank(const std::string& search_id) {
  const Search& search = *state_.FindSearch(search_id);
  RerankState& rerank = reranks_[search_id];
  if (rerank.running || rerank.again_ns != 0) return;
  if (const Evaluation* last = state_.FindEvaluation(rerank.request_id);
      last != nullptr && !last->decision.has_value()) {
    return;
  }
  if (rerank.measured != search.counts.measurements) {
    rerank.measured = search.counts.measurements;
    rerank.submitted.clear();
    rerank.nothing_left = false;
  }
  const ReferenceDescribed* reference =
      state_.FindReference(search.spec.problem_id, search.spec.target, search.device_model);
  std::vector<std::string> candidate_ids;
  std::vector<ForecastQuery> queries;
  std::shared_ptr<const AnchorKernel> anchor;
  if (reference != nullptr && !rerank.nothing_left) {
    for (const auto& [candidate_id, history] : search.history) {
      if (history.standing != CandidateHistory::Standing::kPruned ||
          rerank.submitted.contains(candidate_id)) {
        continue;
      }
      std::optional<Candidate> candidate = search.generator->Find(candidate_id);
      if (!candidate) continue;
      candidate_ids.push_back(candidate_id);
      if (anchor == nullptr) anchor = AnchorFor(*candidate, &search, search.device_model);
      queries.push_back(ForecastQuery{*std::move(candidate), history.facts, reference->facts,
                                      search_id, search.spec.max_forecast_tokens, true,
                                      search.device_model, anchor});
    }
  }
  if (queries.empty()) {
    const bool more = search.generator->proposed() < search.generator->space_size() &&
                      (search.spec.budget.max_candidates == 0 ||
                       search.counts.considered < search.spec.budget.max_candidates);
    if (more) {
      if (search.counts.considered >= LookAhead(search)) {
        rerank.further += kLookAheadPerMeasurement;
        Post([this, search_id] { dirty_searches_.insert(search_id); });
      }
      // Candidates proposed in the meantime may be worth measuring.
      rerank.nothing_left = false;
    } else if (search.in_flight == 0) {
      reranks_.erase(search_id);
      FinishSpace(search);
    }
    return;
  }
  rerank.running = true;
  RunNow([this, search_id, candidate_ids = std::move(candidate_ids), queries = std::move(queries),
          problem = state_.FindProblem(search.spec.problem_id),
          trace = traces_.OfSearch(search_id)]() mutable {
    const TraceScope scope(&trace);
    forecasters_->ForecastAll(
        problem, std::move(queries),
        [this, inbox = inbox_, search_id, candidate_ids = std::move(candidate_ids)](
            absl::StatusOr<std::vector<ForecastResult>> forecasts) {
          inbox->Post([this, search_id, candidate_ids, forecasts = std::move(forecasts)]() mutable {
            OnReranked(search_id, candidate_ids, std::move(forecasts));
          });
        });
  });
}

void Engine::OnReranked(const std::string& search_id, std::vector<std::string> candidate_ids,
                        absl::StatusOr<std::vector<ForecastResult>> forecasts) {
  RerankState& rerank = reranks_[search_id];
  rerank.running = false;
  const Search* search = state_.FindSearch(search_id);
  if (search == nullptr || search->status != SearchStatus::kRunning) {
    reranks_.erase(search_id);
    return;
  }
  // The next tick tries again.
  if (!forecasts.ok() || forecasts->size() != candidate_ids.size()) return;
  uint64_t labels_seen = 0;
  for (const ForecastResult& result : *forecasts) {
    const auto* forecast = std::get_if<Forecast>(&result);
    if (forecast != nullptr) labels_seen = std::max(labels_seen, forecast->labels_seen);
  }
  const uint64_t measured = search->counts.measurements;
  if (rerank.learns && rerank.behind < kMaxBehind &&
      labels_seen < rerank.labels_seen + (measured - rerank.labels_measured)) {
    ++rerank.behind;
    rerank.again_ns = clock_->MonotonicNs() + kBehindWaitNs;
    return;
  }
  if (labels_seen > rerank.labels_seen) {
    rerank.learns = true;
  } else if (rerank.behind == kMaxBehind) {
    rerank.learns = false;
  }
  rerank.behind = 0;
  rerank.labels_seen = labels_seen;
  rerank.labels_measured = measured;
  dirty_searches_.insert(search_id);

  PolicyInput input = CountsFor(*search);
  input.reconsidered = true;
  input.audit_draw = 1;
  std::vector<const Forecast*> measurable(candidate_ids.size(), nullptr);
  for (size_t i = 0; i < candidate_ids.size(); ++i) {
    const auto* forecast = std::get_if<Forecast>(&(*forecasts)[i]);
    if (forecast == nullptr || !ValidateForecast(*forecast).ok()) continue;
    input.forecast = forecast;
    if (search->policy->Decide(input).kind == DecisionKind::kMeasure) measurable[i] = forecast;
  }
  const std::optional<size_t> next = ChooseNext(measurable, input.incumbent_speedup);
  const std::string* const best_id = next.has_value() ? &candidate_ids[*next] : nullptr;
  if (best_id == nullptr) {
    rerank.nothing_left = true;
    return;
  }
  auto known = search->history.find(*best_id);
  std::optional<Candidate> candidate = search->generator->Find(*best_id);
  if (known == search->history.end() || !candidate ||
      known->second.standing != CandidateHistory::Standing::kPruned) {
    return;
  }
  rerank.submitted.insert(*best_id);
  const std::string request_id = absl::StrCat(search_id, "/", search->counts.proposed + 1);
  rerank.request_id = request_id;
  Accept(request_id, search_id, EvaluateMode::kRoute, *std::move(candidate), true);
  Advance(request_id);
}

int64_t Engine::ResumeReranks() {
  int64_t next_ns = std::numeric_limits<int64_t>::max();
  const int64_t now_ns = clock_->MonotonicNs();
  for (auto& [search_id, rerank] : reranks_) {
    if (rerank.again_ns == 0) continue;
    if (rerank.again_ns > now_ns) {
      next_ns = std::min(next_ns, rerank.again_ns);
      continue;
    }
    rerank.again_ns = 0;
    dirty_searches_.insert(search_id);
    next_ns = now_ns;
  }
  return next_ns;
}

// --- Labels and time --------------------------------------------------------------------------

void Engine::OfferLabels() {
  if (state_.pending_labels().size() == labels_offered_.size() ||
      clock_->MonotonicNs() < next_label_offer_ns_) {
    return;
  }
  // Many labels wait if a forecaster is unavailable, and iterating over them takes a while.
  if (labels_offered_.size() > kManyLabels) {
    next_label_offer_ns_ = clock_->MonotonicNs() + kManyLabelsPauseNs;
  }
  // An offer may take long if one of several forecasters is unavailable. Later labels do not wait
  // for it.
  std::map<std::string, std::vector<LabelRecord>> by_problem;
  for (const auto& [request_id, pending] : state_.pending_labels()) {
    if (labels_offered_.contains(request_id)) continue;
    auto& labels = by_problem[pending.problem_id];
    if (labels.size() < kLabelsPerOffer) labels.push_back(pending.label);
  }
  for (auto& [problem_id, labels] : by_problem) {
    std::vector<std::string> request_ids;
    for (const LabelRecord& label : labels) request_ids.push_back(label.label_id);
    labels_offered_.insert(request_ids.begin(), request_ids.end());
    AfterCommit([this, problem_id = problem_id, labels = std::move(labels),
                 request_ids = std::move(request_ids),
                 problem = state_.FindProblem(problem_id)]() mutable {
      forecasters_->Observe(
          problem, std::move(labels),
          [this, inbox = inbox_, problem_id, request_ids](const absl::Status& status) {
            inbox->Post([this, problem_id, request_ids, status] {
              for (const std::string& id : request_ids) labels_offered_.erase(id);
              if (status.ok()) {
                Emit(LabelsObserved{request_ids});
              } else {
                next_label_offer_ns_ = clock_->MonotonicNs() + kLabelRetryNs;
                Log(LogLevel::kWarning, "labels not accepted by the forecaster",
                    {{"problem_id", problem_id},
                     {"labels", request_ids.size()},
                     {"error", std::string(status.ToString())}});
              }
            });
          });
    });
  }
}

void Engine::Tick() {
  dirty_searches_.insert(state_.open_searches().begin(), state_.open_searches().end());
  LookForDevices();
  if (observer_ != nullptr) {
    AfterCommit([this] { observer_->OnOverview(MakeOverview()); });
  }
}

EngineOverview Engine::MakeOverview() {
  EngineOverview overview;
  overview.now_ns = NowNs();
  for (const auto& [id, search] : state_.searches()) {
    if (search.ended_ns != 0 && search.ended_ns < overview_ns_) continue;
    EngineOverview::SearchFigures& figures = overview.searches.emplace_back();
    figures.search_id = id;
    if (auto problem = state_.FindProblem(search.spec.problem_id)) {
      figures.problem_name = problem->name;
    }
    figures.target = search.spec.target;
    figures.device_model = search.device_model;
    figures.policy = search.spec.policy;
    figures.status = search.status;
    figures.end_reason = search.end_reason;
    figures.started_ns = search.started_ns;
    figures.ended_ns = search.ended_ns;
    figures.counts = search.counts;
    figures.selects = search.generator != nullptr;
    const std::optional<Incumbent>& best =
        search.confirmed.has_value() ? search.confirmed : search.incumbent;
    const Ratio* const speedup = best ? MeasuredSpeedup(best->measurement) : nullptr;
    if (speedup != nullptr) figures.best = *speedup;
    figures.risk = search.routes.risk().Report();
  }
  using QueueKey = std::tuple<std::string_view, std::string_view, Stage>;
  std::map<QueueKey, EngineOverview::Queue> queues;
  for (const auto& [id, evaluation] : state_.evaluations()) {
    EngineOverview::Queue& queue =
        queues[{evaluation.candidate.target, evaluation.device_model, evaluation.stage}];
    if (queue.depth++ == 0 || evaluation.accepted_ns < queue.oldest_accepted_ns) {
      queue.oldest_accepted_ns = evaluation.accepted_ns;
    }
  }
  for (auto& [key, queue] : queues) {
    queue.target = std::string(std::get<0>(key));
    queue.device_model = std::string(std::get<1>(key));
    queue.stage = std::get<2>(key);
    overview.queues.push_back(std::move(queue));
  }
  overview_ns_ = overview.now_ns;
  return overview;
}

}  // namespace kernelcast::orchestrator
