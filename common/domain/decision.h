#ifndef KERNELCAST_COMMON_DOMAIN_DECISION_H_
#define KERNELCAST_COMMON_DOMAIN_DECISION_H_

#include <optional>
#include <string>
#include <string_view>

namespace kernelcast {

enum class DecisionKind { kMeasure, kPrune, kReject };

// kAllDecisionReasons lists them.
enum class DecisionReason {
  // measure
  kLowConfidence,
  kPromising,
  kAudit,
  kNoForecast,
  kRequested,
  kBootstrap,
  kReused,
  kSelected,
  kDeclined,
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

inline constexpr DecisionReason kAllDecisionReasons[] = {
    DecisionReason::kLowConfidence, DecisionReason::kPromising,    DecisionReason::kAudit,
    DecisionReason::kNoForecast,    DecisionReason::kRequested,    DecisionReason::kBootstrap,
    DecisionReason::kReused,        DecisionReason::kSelected,     DecisionReason::kDeclined,
    DecisionReason::kUnpromising,   DecisionReason::kBudgetPace,   DecisionReason::kLikelyFailure,
    DecisionReason::kForecastOnly,  DecisionReason::kCompileError, DecisionReason::kDuplicate,
    DecisionReason::kBudget,        DecisionReason::kCancelled,    DecisionReason::kUnavailable,
};

std::string_view Name(DecisionKind kind);      // "measure"
std::string_view Name(DecisionReason reason);  // "low_confidence"
// The kind that a reason belongs to.
DecisionKind KindOf(DecisionReason reason);

// Groups decision reasons for counting and display.
enum class Route {
  kBootstrap,
  kSelected,
  kDeferred,
  kPromoted,
  kAudited,
  kRequested,
  kUnforecast,  // measured because no forecast distinguished it
  kReused,      // answered with the measurement of an earlier evaluation
  kPruned,
  kRejected,
  kDuplicate,  // an earlier evaluation of the candidate was live
};
inline constexpr Route kRoutes[] = {
    Route::kBootstrap, Route::kSelected,  Route::kDeferred,   Route::kPromoted,
    Route::kAudited,   Route::kRequested, Route::kUnforecast, Route::kReused,
    Route::kPruned,    Route::kRejected,  Route::kDuplicate,
};
std::string_view Name(Route route);  // "deferred"
Route RouteOf(DecisionReason reason);

// kernel.proto defines the fields.
struct Decision {
  DecisionKind kind = DecisionKind::kReject;
  DecisionReason reason = DecisionReason::kUnavailable;
  std::string policy;
  std::string policy_version;
  double audit_propensity = 1;
  double win_probability = 0;
  double threshold = 0;
  double incumbent_speedup = 0;
  std::optional<DecisionReason> audited_reason;  // set for kAudit only
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_DECISION_H_
