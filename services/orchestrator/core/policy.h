#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_POLICY_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_POLICY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/decision.h"
#include "common/domain/forecast.h"
#include "services/orchestrator/core/route_history.h"

namespace kernelcast::orchestrator {

// Inputs of a policy for the decision on one candidate.
struct PolicyInput {
  const Forecast* forecast = nullptr;  // null: the forecaster abstained or is unavailable
  // Best measured speedup of the search over the reference. 1 before the first measurement.
  double incumbent_speedup = 1;
  // Measurements made by the search, and measurements decided on that are still running.
  uint64_t measured = 0;
  uint64_t measuring = 0;
  // 0: unlimited.
  uint64_t max_measurements = 0;
  // Candidates decided on so far, and the expected total. 0: unknown.
  uint64_t decided = 0;
  uint64_t expected_decisions = 0;
  // The search ranks its pruned candidates and reconsiders the best of them whenever it may measure
  // one more. Undecided candidates can then wait to be compared with others.
  bool selects = false;
  // For a search that selects: the number of candidates in its start set, and whether this is one
  // of them.
  uint64_t start_size = 0;
  bool start = false;
  // The search reconsiders this candidate as the best of those pruned.
  bool reconsidered = false;
  // The forecaster or, in a pool, its model declined. In a pool there is still a forecast without
  // the model.
  bool declined = false;
  // Random number for the audit, in [0, 1), derived from the search's seed and the request.
  double audit_draw = 0;
  // History of the search's decisions. Null outside searches.
  const RouteHistory* history = nullptr;
};

// Decides to measure or prune. Pure and thread-safe. The caller has already handled candidates that
// are settled by a fact (compile errors, duplicates, an exhausted budget).
class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view version() const = 0;
  virtual Decision Decide(const PolicyInput& input) const = 0;
  // Whether a search that selects may select from the candidates known so far. Uses only the
  // counts.
  virtual bool MaySelect(const PolicyInput& input) const;
  // A win is a speedup above incumbent * (1 + this).
  virtual double win_margin() const = 0;
  // Options of the risk monitor in the search's history.
  virtual RiskOptions risk_options() const { return {}; }
};

inline constexpr std::string_view kDefaultPolicy = "threshold";

// Names that MakePolicy accepts.
std::vector<std::string> PolicyNames();

// INVALID_ARGUMENT: unknown name or parameter, or a value out of range; the message lists what is
// allowed. Parameters of all policies, with defaults:
//
//   margin 0.02         a win is a speedup above incumbent * (1 + margin)
//   fail_above 0.7      failure probability from which a candidate is pruned as a likely failure
//   audit_min 0.05      minimum probability with which a pruned candidate is measured anyway
//   audit_scale 0.2     audits are drawn with clip(audit_scale sqrt(p (1 - p)), audit_min, 1)
//   audit_share 0.05    in a search that selects, the mean share of max_measurements that audits
//                       take is at most this
//   bootstrap_share 0.25 share of max_measurements spent before forecasts are trusted
//   bootstrap_min 6     minimum number of measurements spent before forecasts are trusted
//   start_share 0.5     maximum share of max_measurements for the start set of a search that
//                       selects
//   stop_below 0.0001   a search that selects stops measuring when the best win probability is
//                       below this
//
// All policies defer a candidate whose forecaster declined. A search that selects uses the forecast
// without the model if there is one.
//
// "threshold": measures likely winners, prunes candidates that are confidently not better than the
// incumbent, and defers the others while the budget's pace allows. A search that selects first
// prunes everything except its start set, then measures the best of the pruned candidates one at a
// time.
//
//   promote_above 0.5   win probability from which a candidate is measured as promising
//   prune_below 0.05    win probability below which it is pruned as unpromising
//   pace 0.6            share of the budget that a first pass over all candidates may spend, in
//                       proportion to the candidates seen
//
// "top_k": measures candidates that rank among the best of the last candidates by win probability.
// This is the filter of the paper (arXiv 2605.31464), which measures 4 of 16, but without its
// steps.
//
//   share 0.25          share that is measured
//
// "value": measures the candidates with the largest expected improvement per device time, as many
// as the remaining budget allows for the candidates still to come. Without a limit on measurements,
// all above `least_value`.
//
//   least_value 0.002   expected improvement in log2 speedup, per usual cost of a candidate
//
// "risk": prunes only below a certified win probability: at most `alpha` of the candidates below it
// are winners, for forecasts that were observed to separate faster from slower (RiskMonitor).
// Defers everything else. Certificates are based on deferred and audited candidates, so a wrong
// forecaster costs measurements, not winners.
//
//   alpha 0.05          maximum share of winners among pruned candidates
//   delta 0.05          probability of a false certificate
//   promote_above 0.5   as above
[[nodiscard]] absl::StatusOr<std::unique_ptr<const Policy>> MakePolicy(
    std::string_view name, const std::map<std::string, double>& parameters);

// The policy for candidates outside searches: kDefaultPolicy with prune_below 0.2, because no
// budget limits deferrals there.
const Policy& DefaultPolicy();

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_POLICY_H_
