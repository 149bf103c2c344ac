#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_STATE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_STATE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "common/domain/candidate_counts.h"
#include "common/domain/measuring_cost.h"
#include "services/orchestrator/core/archive.h"
#include "services/orchestrator/core/batches.h"
#include "services/orchestrator/core/confirmation.h"
#include "services/orchestrator/core/event.h"
#include "services/orchestrator/core/event_store.h"
#include "services/orchestrator/core/id_filter.h"
#include "services/orchestrator/core/policy.h"
#include "services/orchestrator/core/ports.h"
#include "services/orchestrator/core/problem_history.h"
#include "services/orchestrator/core/route_history.h"
#include "services/orchestrator/core/search_strategy.h"
#include "services/orchestrator/core/template_generator.h"

namespace kernelcast::orchestrator {

// The step that an evaluation waits for.
//
//   kCompile --facts--> kForecast --forecast or abstention--> kDecide --measure--> kMeasure --+
//      |                                                         |                            |
//      +--------------------- rejected ---------------------+    +-- pruned or rejected --+   |
//                                                           v                             v   v
//                                                        (settled: no longer part of the state)
enum class Stage { kCompile, kForecast, kDecide, kMeasure };

// An evaluation that is not settled yet.
struct Evaluation {
  std::string request_id;
  std::string search_id;
  EvaluateMode mode = EvaluateMode::kRoute;
  Candidate candidate;
  bool generated = false;
  // An earlier evaluation of the same search pruned this candidate.
  bool repeated = false;
  bool reconsidered = false;
  // The turn whose candidate this evaluation decides.
  std::optional<uint64_t> turn;
  // The model as the caller named it, empty for any; and the model of the evaluation, empty until
  // it is chosen.
  std::string wanted_device_model;
  std::string device_model;
  int64_t accepted_ns = 0;
  Stage stage = Stage::kCompile;
  CompileFacts facts;
  std::optional<Forecast> forecast;
  // Search::labels at the first and at the last forecast. Outside searches
  // ProblemHistory::measured().
  uint64_t labels_at_first_forecast = 0;
  uint64_t labels_at_forecast = 0;
  // The forecaster, or its model, declined to forecast.
  bool declined = false;
  std::optional<Decision> decision;
  // Measurements that were unstable and are repeated: their number, and their time.
  int repeats = 0;
  DeviceTime unstable_time;
  // Set if no forecast decides the evaluation: the request that has measured the same candidate for
  // the search, the request whose evaluation of it was live, the budget limit that was reached when
  // this one was accepted, or the compiler's error. At most one is set.
  std::string measured_by;
  std::string duplicate_of;
  std::string over_budget;
  std::optional<CompileError> compile_error;
  std::string forecast_error;  // why there is no forecast, from the forecaster
};

// A settled evaluation, assembled from its events.
struct EvaluationRecord {
  std::string request_id;
  std::string search_id;
  EvaluateMode mode = EvaluateMode::kRoute;
  Candidate candidate;
  bool generated = false;
  std::optional<CompileFacts> facts;
  std::optional<Forecast> decided_on;
  Decision decision;
  std::variant<Measurement, Pruned, Rejection> result;
  bool reused = false;
  // The time of unstable attempts before `result`.
  DeviceTime unstable_time;
  int64_t accepted_ns = 0;
  int64_t settled_ns = 0;
  uint64_t settled_sequence = 0;
  std::string wanted_device_model;
  std::string device_model;
  // For a request for several device models: the records for the other models.
  std::vector<EvaluationRecord> further;
};

// The record of an evaluation that is being settled. It must have a decision.
EvaluationRecord MakeRecord(const Evaluation& evaluation, const EvaluationSettled& settled,
                            int64_t settled_ns, uint64_t sequence);

// Empty if the events do not end in a settlement.
std::optional<EvaluationRecord> FoldEvaluation(const std::vector<StoredEvent>& events);

// Text about a settled evaluation for a search framework or a model.
std::string EvaluationFeedback(const Decision& decision,
                               const std::variant<Measurement, Pruned, Rejection>& result);

enum class SearchStatus { kRunning, kFinishing, kDone, kFailed };

// Counts of a search whose kernels are written by a model.
struct GenerationCounts {
  uint64_t requested = 0;
  uint64_t written = 0;
  uint64_t duplicates = 0;
  uint64_t unusable = 0;
  uint64_t unanswered = 0;
  uint64_t given_up = 0;  // in progress when the search ended
  uint64_t advised = 0;   // answers of the critic
  uint64_t input_tokens = 0;
  uint64_t output_tokens = 0;
  double cost = 0;
  UnreadableByFault unusable_kinds;
  RepairCounts repairs;
  friend bool operator==(const GenerationCounts&, const GenerationCounts&) = default;
};

// orchestrator.proto defines the fields.
struct SearchCounts : CandidateCounts {
  uint64_t measurements = 0;
  uint64_t confirmations = 0;
  int64_t device_time_spent_ns = 0;
  int64_t device_time_preparing_ns = 0;
  int64_t device_time_confirming_ns = 0;
  int64_t device_time_avoided_ns = 0;
  GenerationCounts generation;
  ModelUse model_use;
  TokenUsage unpriced_tokens;
  friend bool operator==(const SearchCounts&, const SearchCounts&) = default;
};

struct Incumbent {
  Candidate candidate;
  Measurement measurement;
  std::string request_id;
};

// The state of a search's candidate.
struct CandidateHistory {
  enum class Standing { kInFlight, kMeasured, kPruned, kRejected };
  Standing standing = Standing::kInFlight;
  CountedCandidate counted;
  // Failure probability of its forecast, while it is pruned.
  std::optional<double> pruned_failure_probability;
  std::string request_id;
  CompileFacts facts;  // for pruned candidates, which may be forecast again
  double speedup = 0;  // for candidates measured as correct
  // Number of the search's measurements when it last selected this candidate.
  std::optional<uint64_t> selected_after;
  std::string parent_candidate_id;
  // The turn (Batches) in which the search derived it.
  std::optional<uint64_t> turn;
  // While it is pruned and not in the template space: what may be evaluated again.
  std::shared_ptr<const Candidate> source;
};

// State of the model that writes a search's kernels.
struct Generation {
  struct Request {
    std::string parent_candidate_id;
    int64_t requested_ns = 0;
    uint64_t turn = 0;
    // The critic's answer. Absent: it has not answered yet, or is not asked.
    std::optional<std::string> advice = std::nullopt;
  };

  static constexpr size_t kMaxReasons = 4;

  // NoveltyKey of every candidate of the search, and of the reference, to the candidate's id.
  std::map<std::string, std::string, std::less<>> known;
  std::map<uint64_t, Request> in_flight;  // by number
  // Turns of kernels that are written and not accepted yet, by the request ids of their
  // evaluations.
  std::map<std::string, uint64_t> written;
  // Number of consecutive answers without a new kernel, and the reasons, latest last.
  uint64_t useless_answers = 0;
  std::deque<std::string> reasons;
  // Unanswered requests since the last answer, not counting those made before an earlier one of
  // them had failed; when the first and the last failed, and how.
  uint64_t outages = 0;
  int64_t away_since_ns = 0;
  int64_t last_outage_ns = 0;
  std::string outage;
};

// The results of ranking a search's pruned candidates.
struct Rankings {
  // Labels that the last ranking's forecasts included, and the search's labels then.
  uint64_t labels_seen = 0;
  uint64_t labels_made = 0;
  // Whether the forecaster has learnt from any label yet. If not, the search does not wait for it.
  bool learns = true;
  // The last ranking, after this number of measurements and with this number of pruned candidates,
  // found nothing worth measuring.
  std::optional<uint64_t> nothing_left_after;
  uint64_t nothing_left_among = 0;
  // The last ranking found this candidate, which has not been accepted since. Empty: none.
  std::string chosen;

  // Number of labels that a forecaster has seen that has learnt from all of the search's labels.
  uint64_t ExpectedLabels(uint64_t labels) const { return labels_seen + (labels - labels_made); }
};

struct Search {
  std::string search_id;
  SearchSpec spec;
  // Device model of all measurements. Empty until it is chosen.
  std::string device_model;
  SearchStatus status = SearchStatus::kRunning;
  std::string end_reason;
  // A caller has stopped the search.
  bool stopped = false;
  SearchCounts counts;
  std::optional<Incumbent> incumbent;
  // The incumbent in the form shown to models. Null before the first. Shared with forecasts in
  // progress.
  std::shared_ptr<const AnchorKernel> anchor;
  std::optional<Incumbent> confirmed;
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
  uint64_t last_sequence = 0;
  RouteHistory routes;

  // Candidates measured at the final level, best first. Set when the search is closed.
  std::vector<Finalist> finalists;
  MeasuringCost cost;
  // The archive when the search was closed. See Overview.
  std::optional<ArchiveOverview> final_archive;

  // Kept only until the search is closed.
  uint64_t in_flight = 0;
  uint64_t measuring = 0;  // decided to be measured and not settled
  // Requests of routed candidates with a forecast and no decision.
  std::set<std::string> undecided;
  std::map<std::string, CandidateHistory, std::less<>> history;
  // Correct candidates, best screening first, at most kMaxLeaders.
  std::vector<Screened> leaders;
  // Final measurements at the end of the search, in the order of their requests, and the correct
  // ones.
  std::vector<FinalMeasurement> finals;
  std::vector<Incumbent> confirmations;
  // Measurements at held-out bench shapes. The candidate ids are those of the search's problem.
  std::vector<FinalMeasurement> gates;
  // The problem with these shapes. Empty: nothing has been measured there.
  std::string held_out_problem_id;
  // Requests of `finals` and `gates`.
  std::set<std::string> confirmation_requests;
  std::unique_ptr<const Policy> policy;
  // Request of the candidate that was selected last, among those pruned. Empty: none.
  std::string selection;
  Rankings rankings;
  // Measurements with a verdict that are not confirmations: the forecaster learns from these.
  uint64_t labels = 0;
  // Time of the last of them. 0: none.
  int64_t measured_ns = 0;
  // Candidates of the space that were considered beyond the look-ahead, because nothing else was
  // worth measuring. A multiple of TemplateSource::kLookAheadPerMeasurement.
  uint64_t looked_further = 0;
  // For the problem's template space, if it has one and the search may use it.
  std::unique_ptr<TemplateGenerator> generator;
  std::unique_ptr<Generation> generation;  // for GeneratorKind::kLlm
  std::unique_ptr<const SearchStrategy> strategy;
  // If candidates are derived from others: the kernels that they are derived from, and how many.
  std::unique_ptr<Archive> archive;
  Batches batches;

  static constexpr size_t kMaxLeaders = 32;

  // Whether a candidate that the search measures is one at held-out bench shapes.
  bool IsHeldOut(const Candidate& candidate) const {
    return candidate.problem_id != spec.problem_id;
  }
  // Adds the time of a measurement to `counts`.
  void CountDeviceTime(const std::string& request_id, const DeviceTime& time);
  // Candidates with a final measurement, best first, and what the gate found.
  std::vector<Finalist> RankedFinalists() const;
  // The kernels from which candidates are derived now, or were at the end. Empty: nothing is
  // derived.
  std::optional<ArchiveOverview> Overview() const;
};

// The candidate for another version of its problem, under its id there.
Candidate ForProblem(Candidate candidate, const std::string& problem_id);

// A settled evaluation whose label the forecaster has not acknowledged.
struct PendingLabel {
  std::string problem_id;
  Label label;
};

// The result of applying the events in order: everything the orchestrator must remember. Its size
// is bounded by live work, not by history. Not thread-safe.
class State {
 public:
  // Applies an event. The same events give the same state; recovery and normal operation use only
  // this method. FAILED_PRECONDITION: the event does not fit the state (a bug or a damaged log);
  // the state is then unchanged.
  [[nodiscard]] absl::Status Apply(const StoredEvent& stored) {
    return Apply(stored.sequence, stored.event);
  }
  [[nodiscard]] absl::Status Apply(uint64_t sequence, const Event& event);

  const std::map<std::string, std::shared_ptr<const Problem>, std::less<>>& problems() const {
    return problems_;
  }
  std::shared_ptr<const Problem> FindProblem(std::string_view problem_id) const;
  // For one device model. Null if it has not been described yet.
  const ReferenceDescribed* FindReference(std::string_view problem_id, std::string_view target,
                                          std::string_view device_model) const;
  // Null before anything was forecast, measured or decided.
  const ProblemHistory* FindHistory(std::string_view problem_id, std::string_view target,
                                    std::string_view device_model) const;
  // Problem, target, device model.
  using DeviceKey = std::tuple<std::string, std::string, std::string>;
  const std::map<DeviceKey, ProblemHistory>& histories() const { return histories_; }
  // By request id, unordered. Do not iterate where the result must be the same after a replay.
  using Evaluations = absl::node_hash_map<std::string, Evaluation>;
  const Evaluations& evaluations() const { return evaluations_; }
  // Their ids, sorted.
  std::vector<std::string> EvaluationIds() const;
  const Evaluation* FindEvaluation(std::string_view request_id) const;
  // False: no evaluation with this id was ever accepted, so the log need not be read.
  bool MayHaveAccepted(std::string_view request_id) const {
    return accepted_ids_.MayHold(request_id);
  }
  const std::map<std::string, Search, std::less<>>& searches() const { return searches_; }
  const Search* FindSearch(std::string_view search_id) const;
  // The searches started by a request for several device models, ordered by id.
  std::vector<const Search*> FindSeveral(std::string_view id) const;
  // Request ids of evaluations whose device model is not chosen yet.
  const std::set<std::string, std::less<>>& without_device() const { return without_device_; }
  // Searches that have not ended.
  const std::set<std::string>& open_searches() const { return open_searches_; }
  const std::map<std::string, PendingLabel, std::less<>>& pending_labels() const {
    return pending_labels_;
  }
  uint64_t last_sequence() const { return last_sequence_; }

  // The whole state as text: equal digests mean equal states.
  std::string Digest() const;
  // Hash of the digest.
  std::string DigestHash() const;

 private:
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const ProblemPut& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const ReferenceDescribed& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const SearchCreated& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const EvaluationAccepted& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const EvaluationCompiled& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const EvaluationForecast& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const EvaluationDecided& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const EvaluationSettled& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const GenerationRequested& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const GenerationAdvised& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const GenerationSettled& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const LabelsObserved& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const SearchFinishing& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const SearchClosed& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const DeviceChosen& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const MeasurementRepeated& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const PrunedRanked& event);

  void SettleInSearch(Search& search, int64_t time_ns, const Evaluation& evaluation,
                      const EvaluationSettled& event);
  void SettleInHistory(const Evaluation& evaluation, const EvaluationSettled& event);
  void AddPendingLabel(const Evaluation& evaluation, const EvaluationSettled& event);

  std::map<std::string, std::shared_ptr<const Problem>, std::less<>> problems_;
  std::map<DeviceKey, ReferenceDescribed> references_;
  std::map<DeviceKey, ProblemHistory> histories_;
  Evaluations evaluations_;
  std::set<std::string, std::less<>> without_device_;
  IdFilter accepted_ids_;
  std::map<std::string, Search, std::less<>> searches_;
  std::set<std::string> open_searches_;
  std::map<std::string, PendingLabel, std::less<>> pending_labels_;
  uint64_t last_sequence_ = 0;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_STATE_H_
