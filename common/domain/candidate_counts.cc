#include "common/domain/candidate_counts.h"

#include <variant>

namespace kernelcast {
namespace {

uint64_t& FieldOf(Route route, CandidateCounts& counts) {
  switch (route) {
    case Route::kBootstrap: return counts.bootstrap;
    case Route::kSelected: return counts.selected;
    case Route::kDeferred: return counts.deferred;
    case Route::kPromoted: return counts.promoted;
    case Route::kAudited: return counts.audited;
    case Route::kUnforecast: return counts.unforecast;
    default: return counts.requested;
  }
}

// Adds `one` to the counter for this outcome. `one` may be -1 modulo 2^64.
void Add(Route route, EvaluationOutcome outcome, uint64_t one, CandidateCounts& counts) {
  switch (outcome) {
    case EvaluationOutcome::kRefused: counts.rejected += one; return;
    case EvaluationOutcome::kPruned: counts.pruned += one; return;
    case EvaluationOutcome::kCompileError:
      counts.rejected += one;
      counts.compile_errors += one;
      counts.failures += one;
      return;
    case EvaluationOutcome::kUnstable: counts.unstable += one; break;
    case EvaluationOutcome::kFailed: counts.failures += one; break;
    case EvaluationOutcome::kOk: break;
  }
  counts.measured += one;
  FieldOf(route, counts) += one;
}

}  // namespace

double CandidateCounts::DeferRate() const {
  return decided() == 0 ? 0 : static_cast<double>(deferred) / static_cast<double>(decided());
}

EvaluationOutcome OutcomeOf(const Measurement& measurement) {
  if (std::holds_alternative<MeasuredOk>(measurement.outcome)) return EvaluationOutcome::kOk;
  if (std::holds_alternative<EnvironmentUnstable>(measurement.outcome) ||
      std::holds_alternative<Passed>(measurement.outcome)) {
    return EvaluationOutcome::kUnstable;
  }
  return EvaluationOutcome::kFailed;
}

void CountedCandidate::Accept(CandidateCounts& counts) {
  ++counts.proposed;
  if (!known_) ++counts.considered;
  known_ = true;
  if (live_++ > 0) return;
  ++counts.live;
  if (standing_) Add(standing_->route, standing_->outcome, -1, counts);
}

void CountedCandidate::Settle(DecisionReason reason, EvaluationOutcome outcome,
                              CandidateCounts& counts) {
  const Route route = RouteOf(reason);
  if (route == Route::kDuplicate) {
    ++counts.duplicates;
  } else if (route == Route::kReused) {
    ++counts.reused;
  } else if (!standing_ || outcome > standing_->outcome) {
    standing_ = Standing{route, outcome};
  }
  if (--live_ > 0) return;
  --counts.live;
  if (!standing_) standing_ = Standing{route, outcome};
  Add(standing_->route, standing_->outcome, 1, counts);
}

}  // namespace kernelcast
