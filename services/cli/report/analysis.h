#ifndef KERNELCAST_SERVICES_CLI_REPORT_ANALYSIS_H_
#define KERNELCAST_SERVICES_CLI_REPORT_ANALYSIS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/scoring.h"
#include "services/cli/core/forecast_eval.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// How an evaluation ended.
enum class Fate { kOk, kFailed, kUnstable, kPruned, kRejected };
Fate FateOf(const ReportCandidate& candidate);

// The measured speedup over the reference, nullptr unless it ran to an ok.
const Ratio* SpeedupOf(const ReportCandidate& candidate);

// Where a candidate came from: its origin without the "template:" of a space's points.
std::string OriginOf(const Candidate& candidate);
// "LANES=8 UNROLL=2 -ffast-math": without TEMPLATE, which the origin tells, and with the flags
// themselves in the place of their index.
std::string TunablesOf(const Candidate& candidate);

// What went wrong, as a short phrase that many candidates share: "wrong result: a value is off".
// Empty for candidates that did not fail.
std::string FailurePhrase(const ReportCandidate& candidate);

// Confirmations count nowhere but in the device time.
struct ReportCounts {
  uint64_t considered = 0;  // distinct candidates
  uint64_t decided = 0;     // evaluations: a pruned candidate may be considered again
  uint64_t measured = 0;    // evaluations for which a device was used
  uint64_t reused = 0;
  uint64_t deferred = 0;  // decisions, as the next two
  uint64_t promoted = 0;
  uint64_t audited = 0;
  // Of the measured, by why; those of which no worker could measure anything are not in these.
  uint64_t measured_deferred = 0;
  uint64_t measured_promoted = 0;
  uint64_t measured_audited = 0;
  uint64_t measured_otherwise = 0;
  uint64_t pruned = 0;
  uint64_t rejected = 0;
  uint64_t failures = 0;            // measured, and not correct
  uint64_t faster = 0;              // measured, and faster by the interval
  double device_seconds_spent = 0;  // confirmations included
  double device_seconds_confirming = 0;
  double device_seconds_avoided = 0;
  double defer_rate = 0;  // deferred / decided
};

struct OriginSummary {
  std::string origin;
  uint64_t considered = 0;
  uint64_t measured = 0;
  uint64_t pruned = 0;
  uint64_t failures = 0;         // compile errors too
  std::vector<double> speedups;  // of those measured ok, ascending
};

struct FailureSummary {
  std::string phrase;
  uint64_t count = 0;
  bool measured = false;  // else found by compiling alone
};

// One point of the reliability diagram.
struct ReliabilityPoint {
  double low = 0;
  double high = 0;
  double mean_confidence = 0;
  double accuracy = 0;
  double weight = 0;  // sum of 1 / propensity
  double squared_weight = 0;
  uint64_t items = 0;
  uint64_t audits = 0;
};

struct ReportAnalysis {
  ReportCounts counts;
  // Index of the best measured candidate, or -1.
  int best = -1;
  // What is shown as the best: the confirmed one, else the best by screening; absent where nothing
  // was measured correct.
  std::optional<ReportBest> shown_best;
  bool confirmed = false;  // shown_best was measured at the final level
  bool faster = false;     // by its interval
  // Confirmations: measured again at the final level after having been measured before.
  std::vector<bool> is_confirmation;
  // Settled without measuring, and the candidate was evaluated otherwise before or after.
  std::vector<bool> superseded;
  std::vector<OriginSummary> origins;    // best first
  std::vector<FailureSummary> failures;  // most frequent first
  std::vector<ReliabilityPoint> reliability;
  uint64_t scored_forecasts = 0;
  double reliability_error = 0;  // ECE, weighted; NaN without a scored forecast
  std::optional<DeviceInfo> device;
  std::string toolchain;
  std::string architecture;
  std::string protocol_version;
  std::vector<std::string> workers;
  std::vector<std::string> forecasters;  // "backend version / calibrator"
  std::vector<std::string> policies;
};

ReportAnalysis Analyze(const ReportInput& input);

// Measured speedup relative to the baseline of a forecast. Absent where the baseline is a candidate
// whose speedup is not in `speedups` (by candidate id).
std::optional<double> SpeedupOverBaseline(const Forecast& forecast, double speedup,
                                          const std::map<std::string, double>& speedups);
std::map<std::string, double> SpeedupsById(const std::vector<ReportCandidate>& candidates);

// The candidate's forecast with its outcome; none where there is no forecast, or nothing came of it
// that tells about it. Where the baseline is unknown: none, and `unknown_baseline` is counted up.
std::optional<ForecastOutcome> ForecastOutcomeOf(const ReportCandidate& candidate,
                                                 const std::map<std::string, double>& speedups,
                                                 uint64_t* unknown_baseline);

// Forecasts with their outcomes, for scoring. `skipped` counts measured candidates whose baseline
// is unknown.
std::vector<ForecastOutcome> ForecastOutcomes(const std::vector<ReportCandidate>& candidates,
                                              uint64_t* skipped);

// 1 / audit propensity for audits, 1 for what was measured for another reason.
double WeightOf(const ReportCandidate& candidate);

// What a search's pruning may have lost, in two or three sentences.
std::string RiskText(const ReportRisk& risk);

// The reason in words, as a heading: "deferred", "promoted", "audit", ...
std::string_view ReasonWord(DecisionReason reason);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_ANALYSIS_H_
