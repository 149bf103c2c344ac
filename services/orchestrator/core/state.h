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
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "services/orchestrator/core/archive.h"
#include "services/orchestrator/core/event.h"
#include "services/orchestrator/core/event_store.h"
#include "services/orchestrator/core/id_filter.h"
#include "services/orchestrator/core/policy.h"
#include "services/orchestrator/core/ports.h"
#include "services/orchestrator/core/route_history.h"
#include "services/orchestrator/core/template_generator.h"

namespace kernelcast::orchestrator {

// What an evaluation waits for.
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
  bool reconsidered = false;
  int64_t accepted_ns = 0;
  Stage stage = Stage::kCompile;
  CompileFacts facts;
  std::optional<Forecast> forecast;
  std::optional<Decision> decision;
};

// A settled evaluation, put together from its events.
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
  int64_t accepted_ns = 0;
  int64_t settled_ns = 0;
  uint64_t settled_sequence = 0;
};

// The record of an evaluation that is being settled; it must have a decision.
EvaluationRecord MakeRecord(const Evaluation& evaluation, const EvaluationSettled& settled,
                            int64_t settled_ns, uint64_t sequence);

// Nothing if the events do not end in a settlement.
std::optional<EvaluationRecord> FoldEvaluation(const std::vector<StoredEvent>& events);

// What a search framework or a model is told of a settled evaluation.
std::string EvaluationFeedback(const Decision& decision,
                               const std::variant<Measurement, Pruned, Rejection>& result);

enum class SearchStatus { kRunning, kFinishing, kDone, kFailed };

// Of a search that has its kernels written by a model.
struct GenerationCounts {
  uint64_t requested = 0;
  uint64_t written = 0;
  uint64_t duplicates = 0;
  uint64_t unusable = 0;
  uint64_t unanswered = 0;
  uint64_t given_up = 0;  // under way when the search ended
  uint64_t input_tokens = 0;
  uint64_t output_tokens = 0;
  double cost = 0;
  friend bool operator==(const GenerationCounts&, const GenerationCounts&) = default;
};

struct SearchCounts {
  uint64_t proposed = 0;
  uint64_t decided = 0;
  uint64_t distinct_candidates = 0;
  uint64_t measured = 0;
  uint64_t deferred = 0;
  uint64_t promoted = 0;
  uint64_t audited = 0;
  uint64_t pruned = 0;
  uint64_t rejected = 0;
  uint64_t failures = 0;
  uint64_t confirmations = 0;
  int64_t device_time_spent_ns = 0;
  GenerationCounts generation;
  friend bool operator==(const SearchCounts&, const SearchCounts&) = default;
};

// Pruned evaluations times the mean device time of a screening measurement.
int64_t DeviceTimeAvoidedNs(const SearchCounts& counts);

struct Incumbent {
  Candidate candidate;
  Measurement measurement;
  std::string request_id;
};

// What the search knows of a candidate.
struct CandidateHistory {
  enum class Standing { kInFlight, kMeasured, kPruned, kRejected };
  Standing standing = Standing::kInFlight;
  std::string request_id;
  CompileFacts facts;  // of pruned candidates: they may be forecast again
  double speedup = 0;  // of those measured as correct
};

// How the model that writes a search's kernels is getting on.
struct Generation {
  explicit Generation(std::string reference_id) : archive(std::move(reference_id)) {}

  struct Request {
    std::string parent_candidate_id;
    int64_t requested_ns = 0;
  };

  static constexpr size_t kMaxReasons = 4;

  Archive archive;
  // NoveltyKey of every candidate of the search, and of the reference, to the candidate's id.
  std::map<std::string, std::string, std::less<>> known;
  std::map<uint64_t, Request> in_flight;  // by number
  // Answers in a row that no new kernel came of, and why; the latest is the last.
  uint64_t useless_answers = 0;
  std::deque<std::string> reasons;
  // Since the last answer: requests that found nobody, those made before an earlier one of them had
  // failed not counted; when the first and the last failed, and how.
  uint64_t outages = 0;
  int64_t away_since_ns = 0;
  int64_t last_outage_ns = 0;
  std::string outage;
};

struct Search {
  std::string search_id;
  SearchSpec spec;
  SearchStatus status = SearchStatus::kRunning;
  std::string end_reason;
  SearchCounts counts;
  std::optional<Incumbent> incumbent;
  std::optional<Incumbent> confirmed;
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
  uint64_t last_sequence = 0;
  RouteHistory routes;

  // Kept only until the search is closed.
  uint64_t in_flight = 0;
  uint64_t measuring = 0;  // decided to be measured, not settled
  std::map<std::string, CandidateHistory, std::less<>> history;
  // Correct candidates by screening speedup, best first, at most kMaxLeaders.
  std::vector<std::pair<double, std::string>> leaders;
  // Results of confirmation at the final level.
  std::vector<Incumbent> confirmations;
  std::set<std::string> confirmation_requests;
  std::unique_ptr<const Policy> policy;
  // Of the problem's space, if it has one and the search may use it.
  std::unique_ptr<TemplateGenerator> generator;
  std::unique_ptr<Generation> generation;  // of GeneratorKind::kLlm

  static constexpr size_t kMaxLeaders = 8;
};

// A settled evaluation whose label the forecaster has not acknowledged.
struct PendingLabel {
  std::string problem_id;
  LabelRecord label;
};

// The fold of the events: what the orchestrator must remember to go on. Bounded by what is live,
// not by what has happened. Not thread-safe.
class State {
 public:
  // Applies an event. The same events give the same state; recovery and normal running call nothing
  // else. FAILED_PRECONDITION: the event does not fit the state (a bug or a damaged log); the state
  // is then unchanged.
  [[nodiscard]] absl::Status Apply(const StoredEvent& stored) {
    return Apply(stored.sequence, stored.event);
  }
  [[nodiscard]] absl::Status Apply(uint64_t sequence, const Event& event);

  const std::map<std::string, std::shared_ptr<const Problem>, std::less<>>& problems() const {
    return problems_;
  }
  std::shared_ptr<const Problem> FindProblem(std::string_view problem_id) const;
  // Null where it has not been described yet.
  const ReferenceDescribed* FindReference(std::string_view problem_id,
                                          std::string_view target) const;
  // By request id. In no order: not to be gone through by what must be the same after a replay.
  using Evaluations = absl::node_hash_map<std::string, Evaluation>;
  const Evaluations& evaluations() const { return evaluations_; }
  // Their ids, in order.
  std::vector<std::string> EvaluationIds() const;
  const Evaluation* FindEvaluation(std::string_view request_id) const;
  // False: no evaluation of that request was ever accepted, so that the log need not be asked.
  bool MayHaveAccepted(std::string_view request_id) const {
    return accepted_ids_.MayHold(request_id);
  }
  const std::map<std::string, Search, std::less<>>& searches() const { return searches_; }
  const Search* FindSearch(std::string_view search_id) const;
  // Those that have not ended.
  const std::set<std::string>& open_searches() const { return open_searches_; }
  const std::map<std::string, PendingLabel, std::less<>>& pending_labels() const {
    return pending_labels_;
  }
  uint64_t last_sequence() const { return last_sequence_; }

  // Everything that counts, as text: equal digests mean equal states.
  std::string Digest() const;
  // The digest, hashed.
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
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const GenerationSettled& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const LabelsObserved& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const SearchFinishing& event);
  absl::Status ApplyBody(uint64_t sequence, int64_t time_ns, const SearchClosed& event);

  void SettleInSearch(Search& search, const Evaluation& evaluation, const EvaluationSettled& event);
  void AddPendingLabel(const Evaluation& evaluation, const EvaluationSettled& event);

  std::map<std::string, std::shared_ptr<const Problem>, std::less<>> problems_;
  std::map<std::pair<std::string, std::string>, ReferenceDescribed> references_;
  Evaluations evaluations_;
  IdFilter accepted_ids_;
  std::map<std::string, Search, std::less<>> searches_;
  std::set<std::string> open_searches_;
  std::map<std::string, PendingLabel, std::less<>> pending_labels_;
  uint64_t last_sequence_ = 0;
};

// The ids that an event belongs to, for the store's index. `state` is the state before the event.
AppendEntry EntryFor(const Event& event, const State& state);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_STATE_H_
