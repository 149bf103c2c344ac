#ifndef KERNELCAST_SERVICES_CLI_CORE_ABSTENTION_H_
#define KERNELCAST_SERVICES_CLI_CORE_ABSTENTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/core/row_outcomes.h"

namespace kernelcast::cli {

// The value of a surrogate's abstentions: the risk of the forecasts that it makes, compared with
// the risk of as many forecasts that a threshold on the confidence selects.
struct AbstentionEvaluation {
  std::string surrogate;
  uint64_t rows = 0;
  uint64_t abstained = 0;
  double coverage = 1;  // share of the weight that has a forecast
  double risk = 0;      // share of wrong bins among these; NaN: there are none
  // The risk where the least confident of these are left out too; ends at `coverage`. Empty: there
  // are none.
  std::vector<RiskPoint> curve;
  // Surrogates that answered all of these rows, and the risk of their most confident forecasts at
  // the same coverage.
  struct Threshold {
    std::string surrogate;
    double risk = 0;
    std::vector<RiskPoint> curve;  // ends at the same coverage
  };
  std::vector<Threshold> thresholds;
};

// One for each surrogate that abstained at least once, by name. Weights count if `weighted`.
// INVALID_ARGUMENT: a malformed forecast.
[[nodiscard]] absl::StatusOr<std::vector<AbstentionEvaluation>> EvaluateAbstentions(
    const std::vector<NamedOutcome>& outcomes, ConfidenceKind confidence, bool weighted);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_ABSTENTION_H_
