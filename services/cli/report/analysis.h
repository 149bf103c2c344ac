#ifndef KERNELCAST_SERVICES_CLI_REPORT_ANALYSIS_H_
#define KERNELCAST_SERVICES_CLI_REPORT_ANALYSIS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/candidate_counts.h"
#include "common/domain/scoring.h"
#include "services/cli/core/forecast_eval.h"
#include "services/cli/report/model.h"
#include "services/cli/report/rows.h"

namespace kernelcast::cli {

// How an evaluation ended.
enum class Fate { kOk, kFailed, kUnstable, kPruned, kRejected };
Fate FateOf(const ReportCandidate& candidate);

// The measured speedup over the reference, or nullptr if there is no ok measurement.
const Ratio* SpeedupOf(const ReportCandidate& candidate);

// The candidate's name, or OriginOf if it has none.
std::string NameOf(const Candidate& candidate);
// Origin of a candidate, without the "template:" prefix of points of a space.
std::string OriginOf(const Candidate& candidate);
// Tunables, e.g. "LANES=8 UNROLL=2 -ffast-math": without TEMPLATE, which the origin contains, and
// with compiler flags instead of their index.
std::string TunablesOf(const Candidate& candidate);

// A short failure reason that candidates share, e.g. "wrong result: a value is off". Empty if the
// candidate did not fail.
std::string FailurePhrase(const ReportCandidate& candidate);

// Confirmations are counted only in the device time.
struct ReportCounts : CandidateCounts {
  uint64_t faster = 0;  // measured, with an interval above 1
  std::map<DecisionReason, uint64_t> pruned_by;
  // From the search if available, otherwise from the records alone.
  double device_seconds_spent = 0;  // includes the next two
  double device_seconds_preparing = 0;
  double device_seconds_confirming = 0;
  double device_seconds_avoided = 0;
};

struct OriginSummary {
  std::string origin;
  uint64_t considered = 0;
  uint64_t measured = 0;
  uint64_t pruned = 0;
  uint64_t failures = 0;         // includes compile errors
  std::vector<double> speedups;  // of those measured ok, ascending
};

struct FailureSummary {
  std::string phrase;
  uint64_t count = 0;
  bool measured = false;  // false: found by compiling
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
  // The candidates, best first.
  std::vector<ReportRow> rows;
  // The candidate shown as the best: the confirmed one, else the best by screening; absent if
  // nothing was measured correct. It is the first of `rows` if it is among the records.
  std::optional<ReportBest> shown_best;
  Ratio best_speedup;                   // of shown_best
  std::optional<Ratio> best_screening;  // of shown_best, if measured separately
  bool confirmed = false;               // shown_best was measured at the final level
  bool faster = false;                  // by its interval
  // By evaluation: a repeated measurement at the final level.
  std::vector<bool> is_confirmation;
  // By evaluation: another evaluation of the candidate counts instead.
  std::vector<bool> superseded;
  std::vector<OriginSummary> origins;    // best first
  std::vector<FailureSummary> failures;  // most frequent first
  std::vector<ReliabilityPoint> reliability;
  uint64_t scored_forecasts = 0;
  // Expected calibration error, weighted, with its 95% bootstrap interval; NaN without a scored
  // forecast. A few audits of large weight make the interval wide.
  Interval reliability_error;
  std::optional<DeviceInfo> device;
  std::string toolchain;
  std::string architecture;
  std::string protocol_version;
  std::vector<std::string> workers;
  std::vector<std::string> forecasters;  // "backend version / calibrator"
  std::vector<std::string> policies;
};

ReportAnalysis Analyze(const ReportInput& input);

// Measured speedup relative to a forecast's baseline. nullopt if the baseline is a candidate whose
// speedup is not in `speedups` (by candidate id).
std::optional<double> SpeedupOverBaseline(const Forecast& forecast, double speedup,
                                          const std::map<std::string, double>& speedups);
std::map<std::string, double> SpeedupsById(const std::vector<ReportCandidate>& candidates);

// The candidate's forecast with its outcome. nullopt if there is no forecast, or the outcome says
// nothing about it. nullopt and increments `unknown_baseline` if the baseline is unknown.
std::optional<ForecastOutcome> ForecastOutcomeOf(const ReportCandidate& candidate,
                                                 const std::map<std::string, double>& speedups,
                                                 uint64_t* unknown_baseline);

// 1 / audit propensity for audits, 1 for candidates measured for another reason.
double WeightOf(const ReportCandidate& candidate);

// Estimates what pruning has lost in a search, in two or three sentences.
std::string RiskText(const v1::SelectiveRisk& risk);
// Results of the search's requests to models, in one text each for kernels and forecasts.
std::vector<std::string> ModelTexts(const v1::Search& search);
// Why candidates were measured, e.g. "40 selected, 30 deferred, 20 promoted"; zeros are left out.
std::string MeasuredWhyText(const ReportCounts& counts);
// "7 unpromising, 37 budget pace": why candidates were pruned.
std::string PrunedWhyText(const ReportCounts& counts);
// Device time that the evaluation took, with its unstable attempts. 0 if it reused a measurement.
double DeviceSecondsOf(const ReportCandidate& candidate);
// "37.2 s of device time: 30.0 s measuring, 4.1 s preparing, 3.1 s confirming; 18.0 s avoided".
std::string DeviceTimeText(const ReportCounts& counts);

// The route of a candidate, by the evaluation that counts.
Route RouteOf(const ReportCandidate& candidate);

// The reason as a heading: "deferred", "promoted", "audit", ...
std::string_view ReasonWord(DecisionReason reason);
// The expected speedup, such as "1.2x", or "unknown" for a forecast that rests on the prior alone.
std::string ExpectedText(const Forecast& forecast);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_ANALYSIS_H_
