#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_LABEL_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_LABEL_H_

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "common/domain/candidate.h"
#include "common/domain/decision.h"
#include "common/domain/device_model.h"
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

// The true outcome of a candidate: its speedup over the problem's reference, or a failure.
using Truth = std::variant<Ratio, FailureKind>;

// "ok" or the failure's name: the `outcome` label of metrics.
std::string_view OutcomeName(const Truth& truth);

struct Label {
  std::string label_id;
  Candidate candidate;
  // An empty schema means no facts.
  CompileFacts facts;
  CompileFacts reference_facts;
  Truth truth;
  // Probability with which the candidate was measured, at the time of the decision, in (0, 1].
  double propensity = 1;
  std::optional<DecisionReason> decision_reason;
  std::optional<Forecast> forecast;
  // Never empty.
  std::string device_model = std::string(kUnknownDeviceModel);
};

// Key of calibrations and weights: target and device model.
std::string ScopeName(std::string_view target, std::string_view device_model);

inline constexpr size_t kMaxLabelIdBytes = 128;

// Checks id, candidate, facts if given, that the speedup is positive and finite, propensity and
// device model. INVALID_ARGUMENT names the field.
[[nodiscard]] absl::Status ValidateLabel(const Label& label);

// Facts may be absent (no schema, no values); otherwise their schema must be known.
// INVALID_ARGUMENT names `field`.
[[nodiscard]] absl::Status ValidateOptionalFacts(std::string_view field, const CompileFacts& facts);

// A device model must have 1 to kMaxDeviceModelBytes bytes of UTF-8. INVALID_ARGUMENT names
// `field`.
[[nodiscard]] absl::Status ValidateDeviceModel(std::string_view field, std::string_view model);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_LABEL_H_
