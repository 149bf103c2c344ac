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
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/trace_context.h"
#include "common/tracing/tracer.h"
#include "services/orchestrator/core/evaluation_traces.h"
#include "services/orchestrator/core/event_store.h"
#include "services/orchestrator/core/log_writer.h"
#include "services/orchestrator/core/ports.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

struct EngineOptions {
  // Evaluations accepted and not settled; one more is refused with RESOURCE_EXHAUSTED.
  size_t max_live_evaluations = 20'000;
  // How many of a search's best are measured again at the final level when it ends.
  int confirm_candidates = 3;
  // A measurement that the environment made worthless is repeated so many times.
  int unstable_retries = 2;
  LogWriterOptions log;
  // How often budgets of wall time are looked at, and labels offered again to an absent forecaster.
  absl::Duration tick = absl::Seconds(1);
  // Of a request for a new kernel, retries included.
  absl::Duration generation_timeout = absl::Minutes(10);
  // After a request that found nobody the next one is made so much later, and twice as much with
  // each further one.
  absl::Duration generation_backoff = absl::Milliseconds(500);
  absl::Duration max_generation_backoff = absl::Seconds(15);
  // How long a search waits for a model that is away before it goes on, or ends, without it.
  absl::Duration generation_patience = absl::Minutes(2);
};

// A search as it stands, without what only the engine needs.
struct SearchSnapshot {
  std::string search_id;
  std::string problem_name;
  SearchSpec spec;
  SearchStatus status = SearchStatus::kRunning;
  std::string end_reason;
  SearchCounts counts;
  std::optional<Incumbent> incumbent;
  std::optional<Incumbent> confirmed;
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
  uint64_t last_sequence = 0;
  RiskReport risk;
};

SearchSnapshot Snapshot(const Search& search, const State& state);

struct EngineFigures {
  uint64_t events = 0;
  uint64_t live_evaluations = 0;
  uint64_t running_searches = 0;
  uint64_t pending_labels = 0;
  uint64_t live_generations = 0;
};

// All that is under way at one moment.
struct EngineOverview {
  struct Queue {
    std::string target;
    Stage stage = Stage::kCompile;
    uint64_t depth = 0;
    int64_t oldest_accepted_ns = 0;
  };
  // Of one that has not ended, or has since the last overview; of all in the first one.
  struct SearchFigures {
    std::string search_id;
    std::string problem_name;
    std::string target;
    std::string policy;
    SearchStatus status = SearchStatus::kRunning;
    std::string end_reason;
    int64_t started_ns = 0;
    int64_t ended_ns = 0;  // 0: it has not ended
    SearchCounts counts;
    Ratio best;  // 0: nothing is measured yet
    RiskReport risk;
  };
  int64_t now_ns = 0;
  std::vector<Queue> queues;  // those that are not empty
  std::vector<SearchFigures> searches;
};

// What the metrics need to know. Called on the engine's thread, after the events are durable.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void OnDecided(const Evaluation& evaluation, const Decision& decision) = 0;
  virtual void OnSettled(const Evaluation& evaluation, const EvaluationSettled& settled) = 0;
  virtual void OnGenerated(const GenerationSettled& settled) = 0;
  virtual void OnFigures(const EngineFigures& figures) = 0;
  // Once a tick.
  virtual void OnOverview(const EngineOverview& overview) = 0;
};

// Carries evaluations and searches from acceptance to settlement.
//
// One thread at a time owns the state: the engine's own, or, for the little that a lone candidate
// brings, one that is at the end of a callback (CallbackScope) and finds the engine at rest. It
// takes commands and completions from an inbox, turns them into events and applies them; another
// appends them to the store, a batch at a time. Callers are answered, and watchers and forecasters
// told, only of what is durable, and only on a durable decision is a GPU or a model that writes
// kernels put to work. Compiling and forecasting begin at once: where a crash takes the events that
// they follow from, nobody had been promised anything and they are done again. After a crash the
// same state comes back by replay, and what was under way is started again; a completion that no
// longer fits its evaluation is dropped, so that nothing is settled twice.
//
// All public calls are thread-safe and return at once; callbacks run one at a time, on the thread
// that owns the state, below "the engine's thread", and must not block. Should the store fail, the
// engine stops: the process must end, and recover when it can.
class Engine {
 public:
  // Replays the store. The ports, the store, the clock and the observer must outlive the engine;
  // the observer may be null, and so may the writer, where no search can have kernels written.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Engine>> Start(
      const EngineOptions& options, EventStore* store, Workers* workers, Forecasters* forecasters,
      const Clock* clock, EngineObserver* observer, KernelWriter* writer = nullptr);
  // As Stop.
  ~Engine();

  // Ends the engine's thread; live evaluations go on after the next start. Callbacks of Evaluate
  // that have not been answered get UNAVAILABLE; others are dropped. What is asked of it afterwards
  // is answered so or dropped. Not from a callback. Again: does nothing.
  void Stop();

  using ProblemDone = std::function<void(absl::StatusOr<std::shared_ptr<const Problem>>)>;
  void PutProblem(std::vector<ProblemFile> files, ProblemDone done);

  struct EvaluateCommand {
    std::string request_id;
    std::string search_id;
    EvaluateMode mode = EvaluateMode::kRoute;
    Candidate candidate;
    // Where the call belongs; not valid: nowhere.
    TraceContext trace = {};
  };
  using EvaluateDone = std::function<void(absl::StatusOr<EvaluationRecord>)>;
  // Answers when the evaluation is settled, or at once where it cannot be accepted.
  void Evaluate(EvaluateCommand command, EvaluateDone done);
  struct EvaluateCall {
    EvaluateCommand command;
    EvaluateDone done;
  };
  // The same for each, in order; one wakeup for all.
  void Evaluate(std::vector<EvaluateCall> calls);

  using SearchDone = std::function<void(absl::StatusOr<SearchSnapshot>)>;
  // An empty id is replaced by a new one.
  void StartSearch(std::string search_id, SearchSpec spec, SearchDone done,
                   TraceContext trace = {});
  void StopSearch(std::string search_id, SearchDone done);
  void GetSearch(std::string search_id, SearchDone done);
  using SearchesDone = std::function<void(std::vector<SearchSnapshot>)>;
  void ListSearches(SearchesDone done);

  // Workers have come or gone: searches look at their capacity again.
  void CapacityChanged();

  // Called on the engine's thread with the newest durable sequence number after each commit.
  // Returns a handle for RemoveListener, which returns when no call is under way.
  using Listener = std::function<void(uint64_t last_sequence)>;
  int AddListener(Listener listener);
  void RemoveListener(int handle);

  EngineFigures figures() const;

  // Hash of State::Digest after an event that is durable, with that event's number.
  using DigestDone = std::function<void(uint64_t sequence, std::string digest)>;
  void DigestState(DigestDone done);

  // Runs `read` on the engine's thread and waits for it. Not for threads that must not block. False
  // where the engine has stopped before it could.
  bool Inspect(const std::function<void(const State&)>& read);

  // Set once the store has failed; nothing is accepted any more.
  absl::Status failure() const;
  // Called once, on the engine's thread, when the store has failed. Set before work arrives.
  void SetFailureCallback(std::function<void()> callback);

  // No new work from callers: Evaluate and StartSearch answer UNAVAILABLE. Searches stop proposing.
  void BeginDrain();

 private:
  using Task = std::function<void()>;

  Engine(const EngineOptions& options, EventStore* store, Workers* workers,
         Forecasters* forecasters, const Clock* clock, EngineObserver* observer,
         KernelWriter* writer);
  absl::Status Recover();
  void Run();
  // Does the tasks and what follows from them. One at a time.
  void Round(std::deque<Task>& tasks);
  void Post(Task task);
  // After a round: how long until there is something to do without further tasks.
  int64_t RestNs();
  // Gives the batch to the writer.
  void Commit();
  // Does what waited for events that are durable now.
  void Finish(const LogWriter::Written& written);
  void Fail(const absl::Status& status);
  // Everybody who waits for an evaluation.
  void AnswerAll(const absl::Status& status);

  // Applies an event and puts it into the batch. False when it does not fit the state.
  bool Emit(EventBody body);
  // To be done once the batch is durable.
  void Afterwards(Task effect) { batch_.effects.push_back(std::move(effect)); }
  // To be done once this round's events are applied: only what a crash may undo.
  void AtOnce(Task action) { actions_.push_back(std::move(action)); }

  absl::Status Admit(const EvaluateCommand& command) const;
  void HandleEvaluate(EvaluateCommand command, EvaluateDone done);
  bool ReuseMeasurement(const EvaluateCommand& command, const std::string& earlier_request_id);
  void HandleStartSearch(std::string search_id, SearchSpec spec, SearchDone done,
                         const TraceContext& trace);
  void Accept(const std::string& request_id, const std::string& search_id, EvaluateMode mode,
              Candidate candidate, bool generated, const TraceContext& trace = {});
  // The span ends when the batch is durable.
  void EndAfterwards(Span span);

  // Does what the evaluation waits for next.
  void Advance(const std::string& request_id);
  void StartCompile(const Evaluation& evaluation);
  void StartForecast(const Evaluation& evaluation);
  void StartMeasure(const Evaluation& evaluation);
  void DescribeReference(const std::string& problem_id, const std::string& target);
  void Decide(const std::string& request_id);
  Decision MakeDecision(const Evaluation& evaluation) const;
  void Reject(const std::string& request_id, DecisionReason reason, Rejection rejection);
  // `decided_now`: observers have not been told of the decision yet.
  void Settle(EvaluationSettled settled, bool decided_now = false);

  void OnCompiled(const std::string& request_id, absl::StatusOr<CompileResult> result);
  void OnForecast(const std::string& request_id, absl::StatusOr<ForecastResult> result);
  void OnMeasured(const std::string& request_id, absl::StatusOr<MeasureResult> result);
  void OnReferenceDescribed(const std::string& problem_id, const std::string& target,
                            absl::StatusOr<CompileResult> result);

  void DriveSearches();
  void DriveSearch(const std::string& search_id);
  // From the template space.
  void Propose(const std::string& search_id);
  // From a model: asks for as many kernels as are wanted now, or turns to the space or to an end
  // where none are to be had.
  void AskForKernels(const std::string& search_id);
  // Whether a search may ask its model for more, and why not.
  struct Asking {
    enum class Kind {
      kYes,
      kSpent,    // it has had what it wanted
      kUseless,  // no new kernel comes of the answers
      kAway,     // for so long that it is not waited for; it may come back
      kNobody,   // there is no model
    };
    Kind kind = Kind::kYes;
    std::string reason;
  };
  Asking AskingOf(const Search& search) const;
  // Ends a search whose space holds nothing more, unless its model may still have something.
  void FinishSpace(const Search& search);
  // Sends a request that the log holds.
  void StartGeneration(const Search& search, uint64_t number);
  void OnGenerated(const std::string& search_id, uint64_t number, GenerationReply reply);
  // Candidates of a search that may be in flight at once.
  uint64_t InFlightLimit(const Search& search) const;
  // Asks for forecasts of all that the search has pruned, to take the best.
  void Rerank(const std::string& search_id);
  // What the policy looks at besides the forecast.
  PolicyInput CountsFor(const Search& search) const;
  // Whether a search may choose from what it knows by now, or waits to know more.
  bool MaySelect(const Search& search) const;
  // Candidates that a search knows before it waits for measurements to tell where to look further.
  uint64_t LookAhead(const Search& search) const;
  void OnReranked(const std::string& search_id, std::vector<std::string> candidate_ids,
                  absl::StatusOr<std::vector<ForecastResult>> forecasts);
  void Confirm(const std::string& search_id);
  // Which limit of the budget is reached; empty if none.
  std::string ExhaustedBudget(const Search& search) const;
  uint64_t ExpectedDecisions(const Search& search) const;

  // Searches that have waited for the forecaster long enough ask again. Returns when the next will.
  int64_t ResumeReranks();

  void OfferLabels();
  void Tick();
  void UpdateFigures();
  EngineOverview MakeOverview();

  const EngineOptions options_;
  EventStore* const store_;
  Workers* const workers_;
  Forecasters* const forecasters_;
  const Clock* const clock_;
  EngineObserver* const observer_;
  KernelWriter* const writer_;  // may be null

  // Owned by the thread that runs a round.
  State state_;
  LogBatch batch_;
  uint64_t durable_sequence_ = 0;
  std::vector<Task> actions_;
  bool failed_ = false;
  absl::flat_hash_map<std::string, std::vector<EvaluateDone>> waiters_;
  // Actions under way, so that an evaluation is not started twice; lost, on purpose, by a crash.
  absl::flat_hash_set<std::string> acting_;
  std::map<std::string, int> unstable_counts_;
  // Settled by events that are not durable yet, and so not to be found in the store.
  absl::flat_hash_set<std::string> settling_;
  // Commands that have to do with one of those, to be looked at again when more is durable.
  std::vector<std::pair<EvaluateCommand, EvaluateDone>> unreadable_;
  EvaluationTraces traces_;
  std::set<std::pair<std::string, std::string>> describing_references_;
  std::set<std::string> dirty_searches_;
  struct RerankState {
    bool running = false;
    // What was measured when the pruned were last ranked, and those submitted since: a candidate is
    // not asked for twice on the same knowledge.
    uint64_t measured = 0;
    std::set<std::string> submitted;
    bool nothing_left = false;
    // The evaluation of the one submitted last, which may not be decided yet.
    std::string request_id;
    // Candidates known beyond the look-ahead, because nothing else was worth measuring.
    uint64_t further = 0;
    // Labels that the forecaster had seen when so many were measured; how often it has been asked
    // again since for it had not seen those that came later.
    uint64_t labels_seen = 0;
    uint64_t labels_measured = 0;
    int behind = 0;
    // Whether it has learnt anything yet: one that does not is not waited for.
    bool learns = true;
    // When to ask again; 0: not waiting.
    int64_t again_ns = 0;
  };
  std::map<std::string, RerankState> reranks_;
  // Requests for kernels under way, by search and number, and what ends those of a search.
  std::set<std::pair<std::string, uint64_t>> writing_;
  std::map<std::string, std::stop_source> writing_stops_;
  // Labels, by request, that forecasters are being told of.
  std::set<std::string> labels_offered_;
  bool draining_ = false;
  int64_t next_label_offer_ns_ = 0;
  int64_t next_tick_ns_ = 0;  // by the monotonic clock
  int64_t overview_ns_ = 0;   // when the last one was made, by the wall clock

  // Shared with completions, which may come after the engine's end and are then dropped.
  struct Inbox;
  const std::shared_ptr<Inbox> inbox_;

  mutable std::mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> failure_callback_ ABSL_GUARDED_BY(mutex_);
  EngineFigures figures_ ABSL_GUARDED_BY(mutex_);

  // Held while listeners are called, so that removal waits for a call under way.
  std::mutex listeners_mutex_;
  std::map<int, Listener> listeners_ ABSL_GUARDED_BY(listeners_mutex_);
  int next_listener_ ABSL_GUARDED_BY(listeners_mutex_) = 0;

  LogWriter log_writer_;
  std::thread thread_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ENGINE_H_
