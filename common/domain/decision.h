#ifndef KERNELCAST_COMMON_DOMAIN_DECISION_H_
#define KERNELCAST_COMMON_DOMAIN_DECISION_H_

#include <string>
#include <string_view>

namespace kernelcast {

enum class DecisionKind { kMeasure, kPrune, kReject };

enum class DecisionReason {
  // measure
  kLowConfidence,
  kPromising,
  kAudit,
  kNoForecast,
  kRequested,
  kBootstrap,
  kReused,
  // prune
  kUnpromising,
  kBudgetPace,
  kLikelyFailure,
  kForecastOnly,
  // reject
  kCompileError,
  kDuplicate,
  kBudget,
  kCancelled,
  kUnavailable,
};

std::string_view Name(DecisionKind kind);      // "measure"
std::string_view Name(DecisionReason reason);  // "low_confidence"
// The kind that a reason belongs to.
DecisionKind KindOf(DecisionReason reason);

// Field meanings as in kernel.proto. A deferral is a decision whose reason is kLowConfidence.
struct Decision {
  DecisionKind kind = DecisionKind::kReject;
  DecisionReason reason = DecisionReason::kUnavailable;
  std::string policy;
  std::string policy_version;
  double audit_propensity = 1;
  double win_probability = 0;
  double threshold = 0;
  double incumbent_speedup = 0;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_DECISION_H_
