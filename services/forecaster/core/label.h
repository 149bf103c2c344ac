#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_LABEL_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_LABEL_H_

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "common/domain/candidate.h"
#include "common/domain/decision.h"
#include "common/domain/facts.h"
#include "common/domain/forecast.h"
#include "common/domain/measurement.h"

namespace kernelcast::forecaster {

// Why a candidate has no speedup. Values match FailureLabel in forecaster.proto.
enum class FailureKind {
  kCompileError = 1,
  kWrongResult = 2,
  kCrash = 3,
  kTimeout = 4,
  kExploit = 5,
};

std::string_view Name(FailureKind kind);  // "wrong_result"

// What a candidate turned out to be: a speedup over the problem's reference, or a failure.
using Truth = std::variant<Ratio, FailureKind>;

// "ok" or the failure's name: the `outcome` label of metrics.
std::string_view OutcomeName(const Truth& truth);

struct Label {
  std::string label_id;
  Candidate candidate;
  // An empty schema means that there are none.
  CompileFacts facts;
  CompileFacts reference_facts;
  Truth truth;
  // Probability with which the candidate was measured when it was decided on, in (0, 1].
  double propensity = 1;
  std::optional<DecisionReason> decision_reason;
  std::optional<Forecast> forecast;
};

inline constexpr size_t kMaxLabelIdBytes = 128;

// INVALID_ARGUMENT naming the field: id, candidate, facts where given, a speedup that is positive
// and finite, propensity.
[[nodiscard]] absl::Status ValidateLabel(const Label& label);

// Facts that are absent (no schema, no values) are fine; others must be of a known schema.
// INVALID_ARGUMENT naming `field`.
[[nodiscard]] absl::Status ValidateOptionalFacts(std::string_view field, const CompileFacts& facts);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_LABEL_H_
