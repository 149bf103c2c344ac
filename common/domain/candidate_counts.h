#ifndef KERNELCAST_COMMON_DOMAIN_CANDIDATE_COUNTS_H_
#define KERNELCAST_COMMON_DOMAIN_CANDIDATE_COUNTS_H_

#include <cstdint>
#include <optional>

#include "common/domain/decision.h"
#include "common/domain/measurement.h"

namespace kernelcast {

// Number of a search's candidates by outcome. SearchCounts in orchestrator.proto defines the
// fields.
struct CandidateCounts {
  uint64_t proposed = 0;
  uint64_t considered = 0;
  uint64_t live = 0;
  uint64_t measured = 0;
  uint64_t bootstrap = 0;
  uint64_t selected = 0;
  uint64_t deferred = 0;
  uint64_t promoted = 0;
  uint64_t audited = 0;
  uint64_t requested = 0;
  uint64_t unforecast = 0;
  uint64_t pruned = 0;
  uint64_t rejected = 0;
  uint64_t failures = 0;
  uint64_t unstable = 0;
  uint64_t compile_errors = 0;
  uint64_t duplicates = 0;
  uint64_t reused = 0;

  uint64_t decided() const { return measured + pruned + rejected; }
  // deferred / decided. 0 if nothing is decided.
  double DeferRate() const;
  friend bool operator==(const CandidateCounts&, const CandidateCounts&) = default;
};

// How an evaluation ended, weakest first. If a candidate has several evaluations, the strongest
// outcome counts.
enum class EvaluationOutcome {
  kRefused,  // budget, cancelled, unavailable
  kPruned,
  kCompileError,
  kUnstable,  // measured without a verdict, or checked without a time
  kFailed,    // measured, and not correct
  kOk,
};
EvaluationOutcome OutcomeOf(const Measurement& measurement);

// Updates the counts for one candidate. All candidate counts, in the log's state and in reports,
// are made by this class. A value type.
class CountedCandidate {
 public:
  // An evaluation of the candidate was accepted.
  void Accept(CandidateCounts& counts);
  // One of its live evaluations was settled. `reason` is the reason of the evaluation's decision.
  void Settle(DecisionReason reason, EvaluationOutcome outcome, CandidateCounts& counts);

 private:
  struct Standing {
    Route route = Route::kRejected;
    EvaluationOutcome outcome = EvaluationOutcome::kRefused;
  };

  uint32_t live_ = 0;  // live evaluations
  bool known_ = false;
  std::optional<Standing> standing_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_CANDIDATE_COUNTS_H_
