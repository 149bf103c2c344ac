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
  // Whether the forecasts distinguish the candidate from the others. They do not if its forecast
  // rests on the prior alone, or if more than half of the other candidates have the same forecast;
  // in a search that selects, if all have. Then its forecast does not decide. `input.forecast` must
  // be set.
  virtual bool Distinguishes(const PolicyInput& input) const = 0;
  // Whether a search that selects may select from the candidates known so far. Uses only the
  // counts.
  virtual bool MaySelect(const PolicyInput& input) const;
  // A win is a speedup above incumbent * (1 + this).
  virtual double win_margin() const = 0;
  // Options of the risk monitor in the search's history.
  virtual RiskOptions risk_options() const { return {}; }
};

inline constexpr std::string_view kDefaultPolicy = "threshold";

// Empty: kDefaultPolicy. INVALID_ARGUMENT: the name is not one of PolicyNames(), a parameter is
// unknown, or a value is out of range; the message lists what is allowed. docs/concepts/routing.md
// explains the parameters.
//
// All policies defer a candidate whose forecaster declined. A search that selects uses the forecast
// without the model if there is one.
[[nodiscard]] absl::StatusOr<std::unique_ptr<const Policy>> MakePolicy(
    std::string_view name, const std::map<std::string, double>& parameters);

struct PolicyParameter {
  std::string_view name;
  double value = 0;  // the default
};

// Parameters of the policy `name` besides those that all policies have. Empty if it is unknown.
std::vector<PolicyParameter> OwnParameters(std::string_view name);

// The policy for candidates outside searches: kDefaultPolicy with prune_below 0.2, because no
// budget limits deferrals there.
const Policy& DefaultPolicy();

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_POLICY_H_
