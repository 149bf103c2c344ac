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
  virtual bool MaySelect(const PolicyInput& input) const = 0;
};

inline constexpr std::string_view kDefaultPolicy = "threshold";

// Names that MakePolicy knows.
std::vector<std::string> PolicyNames();

// INVALID_ARGUMENT: unknown name or parameter, value out of range; the message lists what is
// allowed.
//
// "threshold": measures what may win, prunes what is confidently not better than the incumbent, and
// defers what lies between while the budget's pace allows. A search that selects prunes all but its
// start at first, and takes from the pruned, one at a time, the best there is. Parameters with
// their defaults:
//   margin 0.02         a win is a speedup above incumbent * (1 + margin)
//   promote_above 0.5   win probability from which a candidate is measured as promising
//   prune_below 0.05    win probability under which it is pruned as unpromising
//   stop_below 0.0001   the same for candidates asked for again: under it a search that selects
//                       leaves the rest of its budget alone
//   fail_above 0.7      failure probability from which it is pruned as a likely failure
//   audit_min 0.05      least probability with which a pruned candidate is measured all the same
//   audit_scale 0.2     audits are drawn with clip(audit_scale sqrt(p (1 - p)), audit_min, 1)
//   audit_share 0.05    and in a search that selects such that they take, on average, at most this
//                       share of max_measurements
//   bootstrap_share 0.25 share of max_measurements spent before forecasts are trusted
//   bootstrap_min 6     and at least so many
//   start_share 0.5     share of max_measurements that the start of a search that selects may take
//   pace 0.6            share of the budget that a first pass over all candidates may spend, in
//                       proportion to the candidates seen
[[nodiscard]] absl::StatusOr<std::unique_ptr<const Policy>> MakePolicy(
    std::string_view name, const std::map<std::string, double>& parameters);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_POLICY_H_
