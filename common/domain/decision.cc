#include "common/domain/decision.h"

namespace kernelcast {

std::string_view Name(DecisionKind kind) {
  switch (kind) {
    case DecisionKind::kMeasure: return "measure";
    case DecisionKind::kPrune: return "prune";
    case DecisionKind::kReject: return "reject";
  }
  return "unknown";
}

std::string_view Name(DecisionReason reason) {
  switch (reason) {
    case DecisionReason::kLowConfidence: return "low_confidence";
    case DecisionReason::kPromising: return "promising";
    case DecisionReason::kAudit: return "audit";
    case DecisionReason::kNoForecast: return "no_forecast";
    case DecisionReason::kRequested: return "requested";
    case DecisionReason::kBootstrap: return "bootstrap";
    case DecisionReason::kReused: return "reused";
    case DecisionReason::kSelected: return "selected";
    case DecisionReason::kDeclined: return "declined";
    case DecisionReason::kUnpromising: return "unpromising";
    case DecisionReason::kBudgetPace: return "budget_pace";
    case DecisionReason::kLikelyFailure: return "likely_failure";
    case DecisionReason::kForecastOnly: return "forecast_only";
    case DecisionReason::kCompileError: return "compile_error";
    case DecisionReason::kDuplicate: return "duplicate";
    case DecisionReason::kBudget: return "budget";
    case DecisionReason::kCancelled: return "cancelled";
    case DecisionReason::kUnavailable: return "unavailable";
  }
  return "unknown";
}

std::string_view Name(Route route) {
  switch (route) {
    case Route::kBootstrap: return "bootstrap";
    case Route::kSelected: return "selected";
    case Route::kDeferred: return "deferred";
    case Route::kPromoted: return "promoted";
    case Route::kAudited: return "audited";
    case Route::kRequested: return "requested";
    case Route::kUnforecast: return "unforecast";
    case Route::kReused: return "reused";
    case Route::kPruned: return "pruned";
    case Route::kRejected: return "rejected";
    case Route::kDuplicate: return "duplicate";
  }
  return "unknown";
}

Route RouteOf(DecisionReason reason) {
  switch (reason) {
    case DecisionReason::kBootstrap: return Route::kBootstrap;
    case DecisionReason::kSelected: return Route::kSelected;
    case DecisionReason::kLowConfidence:
    case DecisionReason::kDeclined: return Route::kDeferred;
    case DecisionReason::kPromising: return Route::kPromoted;
    case DecisionReason::kAudit: return Route::kAudited;
    case DecisionReason::kRequested: return Route::kRequested;
    case DecisionReason::kNoForecast: return Route::kUnforecast;
    case DecisionReason::kReused: return Route::kReused;
    case DecisionReason::kUnpromising:
    case DecisionReason::kBudgetPace:
    case DecisionReason::kLikelyFailure:
    case DecisionReason::kForecastOnly: return Route::kPruned;
    case DecisionReason::kDuplicate: return Route::kDuplicate;
    case DecisionReason::kCompileError:
    case DecisionReason::kBudget:
    case DecisionReason::kCancelled:
    case DecisionReason::kUnavailable: return Route::kRejected;
  }
  return Route::kRejected;
}

DecisionKind KindOf(DecisionReason reason) {
  switch (reason) {
    case DecisionReason::kLowConfidence:
    case DecisionReason::kPromising:
    case DecisionReason::kAudit:
    case DecisionReason::kNoForecast:
    case DecisionReason::kRequested:
    case DecisionReason::kBootstrap:
    case DecisionReason::kReused:
    case DecisionReason::kSelected:
    case DecisionReason::kDeclined: return DecisionKind::kMeasure;
    case DecisionReason::kUnpromising:
    case DecisionReason::kBudgetPace:
    case DecisionReason::kLikelyFailure:
    case DecisionReason::kForecastOnly: return DecisionKind::kPrune;
    case DecisionReason::kCompileError:
    case DecisionReason::kDuplicate:
    case DecisionReason::kBudget:
    case DecisionReason::kCancelled:
    case DecisionReason::kUnavailable: return DecisionKind::kReject;
  }
  return DecisionKind::kReject;
}

}  // namespace kernelcast
