#ifndef KERNELCAST_COMMON_DOMAIN_LABEL_H_
#define KERNELCAST_COMMON_DOMAIN_LABEL_H_

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "common/domain/candidate.h"
#include "common/domain/decision.h"
#include "common/domain/device_model.h"
#include "common/domain/facts.h"
#include "common/domain/forecast.h"
#include "common/domain/measurement.h"

namespace kernelcast {

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

// Empty: the outcome is not a verdict.
std::optional<Truth> TruthOf(const MeasureOutcome& outcome);

// "ok" or the failure's name: the `outcome` label of metrics.
std::string_view OutcomeName(const Truth& truth);

// A measured outcome for forecasters to learn from. forecaster.proto defines the fields.
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

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_LABEL_H_
