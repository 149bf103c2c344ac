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

// What a policy may look at when it decides on one candidate.
struct PolicyInput {
  const Forecast* forecast = nullptr;  // null: the forecaster abstained or is away
  // Best measured speedup of the search over the reference; 1 before the first.
  double incumbent_speedup = 1;
  // Measurements of the search that ended in a verdict, and those decided on and still running.
  uint64_t measured = 0;
  uint64_t measuring = 0;
  // 0: unlimited.
  uint64_t max_measurements = 0;
  // Decisions so far, and how many there will be; 0: not known.
  uint64_t decided = 0;
  uint64_t expected_decisions = 0;
  // The search ranks what is pruned and asks for the best of it again, whenever it may measure one
  // more: what is undecided can wait until it is compared with the others.
  bool selects = false;
  // Of a search that selects: how many candidates it starts with before it does, and whether this
  // is one of them.
  uint64_t start_size = 0;
  bool start = false;
  // The search asks for this candidate a second time, as the best of those pruned.
  bool reconsidered = false;
  // In [0, 1), drawn from the search's seed and the request: the audit's coin.
  double audit_draw = 0;
  // How it was decided before; null where there is no search.
  const RouteHistory* history = nullptr;
};

// Decides measure or prune. Pure; thread-safe. The caller has already dealt with what is settled by
// a fact (compile errors, duplicates, an exhausted budget).
class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view version() const = 0;
  virtual Decision Decide(const PolicyInput& input) const = 0;
  // Whether a search that selects may take the best of what it knows by now. Looks at the counts
  // alone; `decided` counts candidates, however often each was decided on.
  virtual bool MaySelect(const PolicyInput& input) const;
  // A win is a speedup above the incumbent's times 1 + this.
  virtual double win_margin() const = 0;
  // What the search's history watches over.
  virtual RiskOptions risk_options() const { return {}; }
};

inline constexpr std::string_view kDefaultPolicy = "threshold";

// Names that MakePolicy knows.
std::vector<std::string> PolicyNames();

// INVALID_ARGUMENT: unknown name or parameter, value out of range; the message lists what is
// allowed. Parameters that all have, with their defaults:
//   margin 0.02         a win is a speedup above incumbent * (1 + margin)
//   fail_above 0.7      failure probability from which a candidate is pruned as a likely failure
//   audit_min 0.05      least probability with which a pruned candidate is measured all the same
//   audit_scale 0.2     audits are drawn with clip(audit_scale sqrt(p (1 - p)), audit_min, 1)
//   audit_share 0.05    and in a search that selects such that they take, on average, at most this
//                       share of max_measurements
//   bootstrap_share 0.25 share of max_measurements spent before forecasts are trusted
//   bootstrap_min 6     and at least so many
//   start_share 0.5     share of max_measurements that the start of a search that selects may take
//   stop_below 0.0001   win probability under which a search that selects leaves the rest of its
//                       budget alone
//
// "threshold": measures what may win, prunes what is confidently not better than the incumbent, and
// defers what lies between while the budget's pace allows. A search that selects prunes all but its
// start at first, and takes from the pruned, one at a time, the best there is.
//   promote_above 0.5   win probability from which a candidate is measured as promising
//   prune_below 0.05    win probability under which it is pruned as unpromising
//   pace 0.6            share of the budget that a first pass over all candidates may spend, in
//                       proportion to the candidates seen
//
// "top_k": measures what is among the best of the last candidates by win probability: the filter of
// the paper (arXiv 2605.31464), which measures 4 of 16, without its steps.
//   share 0.25          so many of them
//
// "value": measures what promises the most improvement for the device time that it takes, as many
// as the budget has left for the candidates that are still to come. Without a budget of
// measurements, all that promises more than `least_value`.
//   least_value 0.002   expected improvement in log2 of the speedup, a candidate's usual cost
//
// "risk": prunes only below a win probability for which it is certified that at most `alpha` of the
// candidates below it are winners, of forecasts that were seen to tell faster from slower
// (RiskMonitor), and defers everything else. Certificates come from deferred and audited
// candidates: a forecaster that is wrong costs measurements, not winners.
//   alpha 0.05          share of winners among what is pruned
//   delta 0.05          probability of a false certificate
//   promote_above 0.5   as above
[[nodiscard]] absl::StatusOr<std::unique_ptr<const Policy>> MakePolicy(
    std::string_view name, const std::map<std::string, double>& parameters);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_POLICY_H_
