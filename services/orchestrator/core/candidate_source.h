#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_CANDIDATE_SOURCE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_CANDIDATE_SOURCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/orchestrator/core/event.h"
#include "services/orchestrator/core/ports.h"
#include "services/orchestrator/core/search_strategy.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

// --- What a search does next ---

// Accept a candidate. Event: EvaluationAccepted.
struct ProposeCandidate {
  std::string request_id;
  EvaluateMode mode = EvaluateMode::kRoute;
  Candidate candidate;
};

// Ask a model for a kernel. Event: GenerationRequested.
struct RequestKernel {
  uint64_t number = 0;
  std::string parent_candidate_id;
};

// Forecast these pruned candidates again, to measure the best of them. Event: PrunedRanked.
struct RankPruned {
  std::vector<std::string> candidate_ids;
  std::vector<ForecastQuery> queries;  // one per candidate
  // PrunedRanked defines these.
  uint64_t measurements = 0;
  uint64_t pruned = 0;
};

// Stop proposing. Event: SearchFinishing.
struct FinishSearch {
  std::string reason;
};

using SourceAction = std::variant<ProposeCandidate, RequestKernel, RankPruned, FinishSearch>;

// Inputs of a source besides the state: values of the outside world at one moment.
struct SourceInputs {
  int64_t now_ns = 0;  // since the Unix epoch
  Workers::Capacity capacity;
  // A ranking is in progress, or waits for the forecaster to learn.
  bool ranking = false;
  // Whether there is a model that writes kernels.
  bool has_writer = false;
  // EngineOptions defines these.
  absl::Duration generation_backoff = absl::Milliseconds(500);
  absl::Duration max_generation_backoff = absl::Seconds(15);
  absl::Duration generation_patience = absl::Minutes(2);
};

// Where a search's candidates come from. What they are derived from, and which of them compete for
// measurements, is the business of the search's SearchStrategy. Implementations have no state:
// everything they need is in the search, and so follows from the events. Thread-safe.
class CandidateSource {
 public:
  virtual ~CandidateSource() = default;

  // Whether a search with this specification can start.
  [[nodiscard]] virtual absl::Status Check(const SearchSpec& spec, const Problem& problem,
                                           bool has_writer) const = 0;

  // Whether the search proposes candidates by itself. Its reference is then compiled at the start,
  // also if no forecast needs it, because the search's labels and records contain its facts.
  virtual bool ProposesByItself() const = 0;

  // The number of candidates that the search will decide on. 0: unknown.
  virtual uint64_t ExpectedDecisions(const Search& search) const = 0;

  // The next step of a running search that has budget. Nothing: it waits for results. Pure: the
  // same state and inputs give the same step.
  virtual std::optional<SourceAction> Next(const State& state, const Search& search,
                                           const SourceInputs& inputs) const = 0;
};

// Lives until the process ends.
const CandidateSource& SourceFor(GeneratorKind kind);

// Maximum number of a search's candidates in flight.
uint64_t InFlightLimit(const Search& search, const Workers::Capacity& capacity);

// Request id of the next candidate that the search proposes.
std::string NextRequestId(const Search& search);

// Parents of the next candidate, by the search's strategy. The search must have an archive.
Parents NextParents(const Search& search);

// Whether the strategy derives one more candidate now. If not, those that it has derived compete
// for measurements first.
bool MayDerive(const Search& search);

// Whether nothing is decided, written or ranked at the moment. A search that waits for no result
// may start a batch although others are open, because nothing of them is worth measuring.
bool IsIdle(const State& state, const Search& search, const SourceInputs& inputs);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_CANDIDATE_SOURCE_H_
