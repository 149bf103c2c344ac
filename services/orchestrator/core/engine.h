#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ENGINE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ENGINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/crash_journal.h"
#include "common/base/trace_context.h"
#include "common/tracing/tracer.h"
#include "services/orchestrator/core/candidate_source.h"
#include "services/orchestrator/core/evaluation_traces.h"
#include "services/orchestrator/core/event_store.h"
#include "services/orchestrator/core/log_writer.h"
#include "services/orchestrator/core/plan.h"
#include "services/orchestrator/core/ports.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

struct EngineOptions {
  // Limit of evaluations accepted and not settled. Further ones are refused with
  // RESOURCE_EXHAUSTED.
  size_t max_live_evaluations = 20'000;
  // Maximum number of a search's best candidates that are measured again at the final level when it
  // ends (confirmation.h). 0: none.
  int confirm_candidates = ConfirmationLimits().candidates;
  // Number of times that a measurement is repeated if the environment was unstable.
  int unstable_retries = 2;
  LogWriterOptions log;
  // Interval at which wall-time budgets are checked and labels are offered again to an absent
  // forecaster.
  absl::Duration tick = absl::Seconds(1);
  // Timeout of a request for a new kernel, including retries.
  absl::Duration generation_timeout = absl::Minutes(10);
  // Delay after a request that no endpoint answered. Doubles with each further one, up to the
  // maximum.
  absl::Duration generation_backoff = absl::Milliseconds(500);
  absl::Duration max_generation_backoff = absl::Seconds(15);
  // How long a search waits for an unavailable model before it continues or ends without it.
  absl::Duration generation_patience = absl::Minutes(2);
  // How long a search or evaluation waits for a starting worker before it fails, if its target or
  // device model has had no worker since this process started.
  absl::Duration device_grace = absl::Seconds(10);
  // Inputs that crashed the process twice are set aside. Null: disabled. Must outlive the engine.
  CrashJournal* crash_journal = nullptr;
  // Answers questions about the log as it is. Nothing is appended, evaluated or searched, and
  // commands that would do so get FAILED_PRECONDITION.
  bool read_only = false;
};

// State of a search, without data that only the engine needs.
struct SearchSnapshot {
  std::string search_id;
  std::string problem_name;
  SearchSpec spec;
  std::string device_model;
  SearchStatus status = SearchStatus::kRunning;
  std::string end_reason;
  SearchCounts counts;
  std::optional<Incumbent> incumbent;
  std::optional<Incumbent> confirmed;
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
  uint64_t last_sequence = 0;
  RiskReport risk;
  // Why the search cannot make progress, and since when. Empty: it can.
  std::string wait_reason;
  int64_t waiting_since_ns = 0;
  // For a call about searches on several device models: the other searches.
  std::vector<SearchSnapshot> further;
  std::vector<Finalist> finalists;
  std::optional<ArchiveOverview> archive = std::nullopt;  // only on request
};

// Without wait_reason and waiting_since_ns, which only the engine knows.
SearchSnapshot Snapshot(const Search& search, const State& state);

struct EngineFigures {
  uint64_t events = 0;
  uint64_t live_evaluations = 0;
  uint64_t running_searches = 0;
  uint64_t pending_labels = 0;
  uint64_t live_generations = 0;
};

// All work in progress at one moment.
struct EngineOverview {
  struct Queue {
    std::string target;
    Stage stage = Stage::kCompile;
    uint64_t depth = 0;
    int64_t oldest_accepted_ns = 0;
    std::string device_model = {};
  };
  // Covers searches that are open or ended since the last overview. The first overview covers all.
  struct SearchFigures {
    std::string search_id;
    std::string problem_name;
    std::string target;
    std::string device_model;
    std::string policy;
    SearchStatus status = SearchStatus::kRunning;
    std::string end_reason;
    int64_t started_ns = 0;
    int64_t ended_ns = 0;  // 0: open
    SearchCounts counts;
    // It may still measure candidates that it has pruned.
    bool selects = false;
    Ratio best;  // 0: nothing measured yet
    RiskReport risk;
  };
  int64_t now_ns = 0;
  std::vector<Queue> queues;  // non-empty queues only
  std::vector<SearchFigures> searches;
};

// Receives events for metrics. Called on the engine's thread, after the events are durable.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void OnDecided(const Evaluation& evaluation, const Decision& decision) = 0;
  virtual void OnSettled(const Evaluation& evaluation, const EvaluationSettled& settled) = 0;
  virtual void OnGenerated(const GenerationSettled& settled) = 0;
  virtual void OnAdvised(const GenerationAdvised& advised) = 0;
  virtual void OnFigures(const EngineFigures& figures) = 0;
  // Called once per tick.
  virtual void OnOverview(const EngineOverview& overview) = 0;
};

// For commands that EngineOptions.read_only rules out. FAILED_PRECONDITION.
[[nodiscard]] absl::Status ReadOnlyError();

// Drives evaluations and searches from acceptance to settlement.
//
// One thread at a time owns the state: the engine's own thread or, for the small work of a single
// candidate, a thread at the end of a callback (CallbackScope) that finds the engine idle. It takes
// commands and completions from an inbox, turns them into events and applies them. Another thread
// appends the events to the store in batches.
//
// Callers are answered, and watchers and forecasters notified, only when the events are durable.
// GPUs and kernel-writing models are used only after a durable decision. Compiling and forecasting
// start at once: if a crash loses the events they follow from, nothing had been promised, and they
// are repeated.
//
// After a crash, replay restores the same state and restarts the work that was in progress. A
// completion that no longer fits its evaluation is dropped, so nothing is settled twice.
//
// All public methods are thread-safe and return at once. Callbacks run one at a time on the thread
// that owns the state, called "the engine's thread" below, and must not block. If the store fails,
// the engine stops; the process must exit and recover.
class Engine {
 public:
  // Replays the store. All pointers must outlive the engine. `observer` may be null; `writer` may
  // be null if no search uses a model to write kernels.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Engine>> Start(
      const EngineOptions& options, EventStore* store, Workers* workers, Forecasters* forecasters,
      const Clock* clock, EngineObserver* observer, KernelWriter* writer = nullptr);
  // Calls Stop.
  ~Engine();

  // Stops the engine's thread. Live evaluations continue after the next start. Pending callbacks of
  // Evaluate get UNAVAILABLE; others are dropped. Later calls get UNAVAILABLE or are dropped. Must
  // not be called from a callback. Idempotent.
  void Stop();

  using ProblemDone = std::function<void(absl::StatusOr<std::shared_ptr<const Problem>>)>;
  void PutProblem(std::shared_ptr<const Problem> problem, ProblemDone done);

  struct EvaluateCommand {
    std::string request_id;
    std::string search_id;
    EvaluateMode mode = EvaluateMode::kRoute;
    Candidate candidate;
    // Trace context of the call. Invalid: none.
    TraceContext trace = {};
    // As in EvaluateRequest.device_models.
    std::vector<std::string> device_models = {};
  };
  using EvaluateDone = std::function<void(absl::StatusOr<EvaluationRecord>)>;
  // Answers when the evaluation is settled, or at once if it is not accepted.
  void Evaluate(EvaluateCommand command, EvaluateDone done);
  struct EvaluateCall {
    EvaluateCommand command;
    EvaluateDone done;
  };
  // Evaluates several candidates, in order, with a single wakeup.
  void Evaluate(std::vector<EvaluateCall> calls);

  // Rejects the evaluation as cancelled if it is not settled. On several device models: all of
  // them.
  void CancelEvaluation(std::string request_id);

  using SearchDone = std::function<void(absl::StatusOr<SearchSnapshot>)>;
  // An empty id is replaced by a new one. A specification with several device models starts a
  // search for each, with ids made by IdForDevice. In these methods the id itself then means all of
  // them.
  void StartSearch(std::string search_id, SearchSpec spec, SearchDone done,
                   TraceContext trace = {});
  // `abandon`: cancels evaluations in flight, confirms nothing and ends at once.
  void StopSearch(std::string search_id, SearchDone done, bool abandon = false);
  void GetSearch(std::string search_id, SearchDone done, bool with_archive = false);
  using SearchesDone = std::function<void(std::vector<SearchSnapshot>)>;
  void ListSearches(SearchesDone done);

  // Call when workers have come or gone. Searches then check their capacity again.
  void CapacityChanged();

  // Called on the engine's thread after each commit, with the newest durable sequence number.
  // AddListener returns a handle for RemoveListener, which returns when no call is in progress.
  using Listener = std::function<void(uint64_t last_sequence)>;
  int AddListener(Listener listener);
  void RemoveListener(int handle);

  EngineFigures figures() const;

  // Hash of State::Digest after a durable event, and the event's sequence number.
  using DigestDone = std::function<void(uint64_t sequence, std::string digest)>;
  void DigestState(DigestDone done);

  // Runs `read` on the engine's thread and waits for it. Blocks. Returns false if the engine
  // stopped first.
  bool Inspect(const std::function<void(const State&)>& read);

  // Set once the store has failed. Nothing is accepted after that.
  absl::Status failure() const;
  // Called once, on the engine's thread, when the store has failed. Set it before work arrives.
  void SetFailureCallback(std::function<void()> callback);

  // Refuses new work from callers: Evaluate and StartSearch return UNAVAILABLE. Searches stop
  // proposing.
  void BeginDrain();

 private:
  using Task = std::function<void()>;

  Engine(const EngineOptions& options, EventStore* store, Workers* workers,
         Forecasters* forecasters, const Clock* clock, EngineObserver* observer,
         KernelWriter* writer);
  absl::Status Recover();
  void Run();
  // Runs the tasks and the work that follows from them. Calls do not overlap.
  void Round(std::deque<Task>& tasks);
  void Post(Task task);
  // After a round: time until there is work without further tasks.
  int64_t TimeToNextWakeNs();
  // Passes the batch to the writer.
  void Commit();
  // Runs the effects of events that are now durable.
  void Finish(const LogWriter::Written& written);
  void Fail(const absl::Status& status);
  // Answers every waiter of an evaluation.
  void AnswerAll(const absl::Status& status);

  // Applies an event and adds it to the batch. Returns false if it does not fit the state.
  bool Emit(EventBody body);
  // Runs `effect` once the batch is durable.
  void AfterCommit(Task effect) { batch_.effects.push_back(std::move(effect)); }
  // Runs `action` once this round's events are applied. Only for actions that a crash may undo.
  void RunNow(Task action) { actions_.push_back(std::move(action)); }

  absl::Status Admit(const EvaluateCommand& command) const;
  void HandleEvaluate(EvaluateCommand command, EvaluateDone done);
  void HandleStartSearch(std::string search_id, SearchSpec spec, SearchDone done,
                         const TraceContext& trace);
  absl::StatusOr<SearchSnapshot> CreateSearch(const std::string& search_id, SearchSpec spec,
                                              const TraceContext& trace);
  // A search, or the searches on several device models in order. Empty: the id is unknown.
  std::vector<const Search*> SearchesOf(const std::string& id) const;
  absl::StatusOr<SearchSnapshot> SnapshotAll(const std::string& id,
                                             bool with_archive = false) const;
  SearchSnapshot SnapshotOf(const Search& search) const;
  bool IsAboutSeveral(const EvaluateCommand& command) const;
  // Evaluates the candidate on each device model and answers once.
  void EvaluateOnEach(EvaluateCommand command, EvaluateDone done);

  // --- Device models (engine_devices.cc) ---
  // Same as Workers::DeviceModelFor.
  std::string DeviceModelFor(const std::string& target, const std::string& wanted);
  DeviceInputs DeviceInputsFor(const std::string& target, const std::string& wanted);
  // Plans the evaluations without a device model again.
  void LookForDevices();
  // Notes whether the search waits for a worker, for callers.
  void NoteWait(const Search& search, const SearchInputs& inputs);
  void Abandon(const Search& search, const AbandonSearch& action);
  // Rejects the evaluations, and stops the work of workers on them.
  void CancelEvaluations(std::vector<std::string> request_ids, DecisionReason reason,
                         const Rejection& rejection);
  void StopWriting(const std::string& search_id);

  // Returns false if the event does not fit the state.
  bool Accept(const std::string& request_id, const std::string& search_id, EvaluateMode mode,
              Candidate candidate, bool generated, const TraceContext& trace = {},
              const std::string& wanted_device_model = "");
  // Ends the span when the batch is durable.
  void EndAfterCommit(Span span);

  // Performs the next action of the evaluation, if none is in progress.
  void Advance(const std::string& request_id, bool is_next = false);
  void Perform(const Evaluation& evaluation, EvaluationAction action);
  void StartCompile(const Evaluation& evaluation);
  void StartForecast(const Evaluation& evaluation, ForecastQuery query);
  void StartMeasure(const Evaluation& evaluation, const MeasureCandidate& action);
  // Compiles the reference, if that is not in progress.
  void StartReference(const std::string& problem_id, const std::string& target,
                      const std::string& device_model);
  // Settles the evaluation with the measurement of an earlier one, from the log.
  void Reuse(const Evaluation& evaluation, const std::string& earlier_request_id);
  // Emits the decision and what follows from it.
  void Decide(const Evaluation& evaluation, DecideCandidate action);
  void Reject(const std::string& request_id, DecisionReason reason, Rejection rejection);
  // `decided_now`: observers have not been notified of the decision yet.
  void Settle(EvaluationSettled settled, bool decided_now = false);

  void OnCompiled(const std::string& request_id, absl::StatusOr<CompileResult> result);
  void OnForecast(const std::string& request_id, absl::StatusOr<ForecastResult> result);
  void OnMeasured(const std::string& request_id, absl::StatusOr<MeasureResult> result);
  void OnReferenceDescribed(const std::string& problem_id, const std::string& target,
                            const std::string& device_model, absl::StatusOr<CompileResult> result);

  void DriveSearches();
  void DriveSearch(const std::string& search_id);
  // Decides what waits in a search, or for a problem outside searches. `queue` is unique to it.
  template <class Owner>
  void DecideInOrder(const std::string& queue, const Owner& owner, uint64_t measure_slots);
  void DriveProblems();
  // Has all problems looked at for which candidates outside searches wait.
  void NoteProblems();
  // The same for the problem that the event is about. Call it before the event is applied.
  void NoteProblem(const Event& event);
  // Values of the outside world for the search's plan.
  SearchInputs InputsOf(const Search& search);
  // Makes the calls that the search needs and that are not in progress.
  void StartCalls(const Search& search, const SearchInputs& inputs);
  // Returns whether more of the plan can be performed in this round.
  bool Perform(const Search& search, const SearchInputs& inputs, SearchAction action);
  // The input of a writer or critic for a request that is in the log.
  GenerationQuery QueryFor(const Search& search, uint64_t number);
  // Send a request that is in the log, to the writer or to the critic.
  // Calls `ask` when the request is durable, and `answered` with its reply.
  template <class Reply>
  void AskWriter(const Search& search, uint64_t number,
                 void (KernelWriter::*ask)(GenerationQuery, std::function<void(Reply)>),
                 void (Engine::*answered)(const std::string&, uint64_t, Reply));
  void StartGeneration(const Search& search, uint64_t number);
  void StartAdvice(const Search& search, uint64_t number);
  void OnAdvised(const std::string& search_id, uint64_t number, AdviceReply reply);
  void OnGenerated(const std::string& search_id, uint64_t number, GenerationReply reply);
  void StartRanking(const Search& search, RankPruned action);
  void OnRanked(const std::string& search_id, const RankPruned& ranking,
                absl::StatusOr<std::vector<ForecastResult>> forecasts);
  // Measures the candidates at the final level. Closes the search if none of them can be read.
  void StartFinals(const Search& search, const std::vector<std::string>& candidate_ids);
  void StartHeldOut(const Search& search, MeasureHeldOut action);
  void Close(const Search& search, std::string confirmed_request_id);
  // From the state for finalists, otherwise from the log.
  std::optional<Candidate> SourceOf(const Search& search, const std::string& candidate_id);
  // Whether to ask the forecaster again, because it has not learnt from any label of the problem.
  // Its forecast must not be compared with an incumbent that is such a label. After
  // kLabelPatienceNs the forecast is taken as it is.
  bool WaitsToLearn(const Evaluation& evaluation, const Forecast& forecast);
  // Repeats requests of searches and candidates that have waited long enough for the forecaster.
  // Returns the time of the next one.
  int64_t ResumeForecasts();

  void OfferLabels();
  void Tick();
  void UpdateFigures();
  EngineOverview MakeOverview();

  const EngineOptions options_;
  EventStore* const store_;
  Workers* const workers_;
  Forecasters* const forecasters_;
  // Time of events and intervals: the wall clock at the start plus the monotonic clock, so that
  // setting the wall clock back delays nothing.
  int64_t NowNs() const { return clock_->MonotonicNs() + wall_offset_ns_; }

  const Clock* const clock_;
  const int64_t wall_offset_ns_ = clock_->WallNs() - clock_->MonotonicNs();
  const int64_t start_ns_ = NowNs();
  EngineObserver* const observer_;
  KernelWriter* const writer_;  // may be null

  // Owned by the thread that runs a round.
  State state_;
  LogBatch batch_;
  uint64_t durable_sequence_ = 0;
  std::vector<Task> actions_;
  bool failed_ = false;
  absl::flat_hash_map<std::string, std::vector<EvaluateDone>> waiters_;
  // Evaluations with an action in progress, so that none is started twice. Deliberately lost in a
  // crash.
  absl::flat_hash_set<std::string> acting_;
  // Settled by events that are not durable yet, and so not yet in the store.
  absl::flat_hash_set<std::string> settling_;
  // Commands that need one of those evaluations. Retried when more is durable.
  std::vector<std::pair<EvaluateCommand, EvaluateDone>> unreadable_;
  EvaluationTraces traces_;
  // Problem, target, device model.
  std::set<std::tuple<std::string, std::string, std::string>> describing_references_;
  // By target and wanted model. Cleared when workers come or go.
  std::map<std::pair<std::string, std::string>, std::string> device_models_;
  // Searches that no worker measures for, as shown to callers.
  struct Wait {
    std::string reason;
    int64_t since_ns = 0;  // wall clock
  };
  std::map<std::string, Wait> waits_;
  std::set<std::string> dirty_searches_;
  std::set<State::DeviceKey> dirty_problems_;
  // The request that NextToDecide returned last and that is being forecast again, by queue.
  std::map<std::string, std::string> forecast_again_;
  // Searches whose pruned candidates are being ranked, and when to rank again those whose
  // forecaster had not learnt (monotonic clock). 0: the forecaster has been asked.
  std::map<std::string, int64_t> rankings_;
  // Candidates that are forecast again when the forecaster has learnt. Monotonic clock.
  struct LearningWait {
    int64_t since_ns = 0;
    int64_t again_ns = 0;  // 0: the forecaster has been asked
  };
  std::map<std::string, LearningWait> learning_waits_;
  // Problems whose forecaster did not learn in that time.
  std::set<std::string> not_learnt_;
  // Requests for kernels in progress, by search and number, and the stop sources of each search.
  std::set<std::pair<std::string, uint64_t>> writing_;
  std::map<std::string, std::stop_source> writing_stops_;
  // Labels, by request, that are being sent to forecasters.
  std::set<std::string> labels_offered_;
  bool draining_ = false;
  int64_t next_label_offer_ns_ = 0;
  int64_t next_tick_ns_ = 0;  // monotonic clock
  int64_t overview_ns_ = 0;   // wall clock time of the last overview

  // Shared with completions, which may arrive after the engine's end and are then dropped.
  struct Inbox;
  const std::shared_ptr<Inbox> inbox_;

  mutable std::mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> failure_callback_ ABSL_GUARDED_BY(mutex_);
  EngineFigures figures_ ABSL_GUARDED_BY(mutex_);

  // Held while listeners are called, so that removal waits for a running call.
  std::mutex listeners_mutex_;
  std::map<int, Listener> listeners_ ABSL_GUARDED_BY(listeners_mutex_);
  int next_listener_ ABSL_GUARDED_BY(listeners_mutex_) = 0;

  LogWriter log_writer_;
  std::thread thread_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ENGINE_H_
