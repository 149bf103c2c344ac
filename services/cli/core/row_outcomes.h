#ifndef KERNELCAST_SERVICES_CLI_CORE_ROW_OUTCOMES_H_
#define KERNELCAST_SERVICES_CLI_CORE_ROW_OUTCOMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/core/forecast_eval.h"
#include "services/cli/core/paper_rows.h"

namespace kernelcast::cli {

// An outcome with what it may be grouped by.
struct NamedOutcome {
  ForecastOutcome outcome;
  std::string problem;
  std::string backend;
  std::string search;
};

struct JoinedRows {
  std::vector<NamedOutcome> outcomes;
  // Predictions of comparisons that no evaluation row tells, and the other way round.
  uint64_t without_truth = 0;
  uint64_t without_prediction = 0;
  // Rows whose bin is not what their scheme makes of their speedup; the row's own counts.
  uint64_t odd_labels = 0;
  // Predictions that name another bin than their most probable one.
  uint64_t argmax_mismatches = 0;
};

// Joins predictions with what was measured, by comparison_id. A prediction is over the bins of the
// scheme that it names, else of `bin_scheme_id`, else of the published formula; an evaluation row
// of another scheme is labelled anew from its speedup. A prediction that
// failed to parse, or names no bin, is unparsable. Probabilities are scaled to a sum of one.
// INVALID_ARGUMENT: a comparison_id with two evaluation rows, an unknown scheme.
[[nodiscard]] absl::StatusOr<JoinedRows> JoinPredictions(
    const std::vector<EvaluationRow>& rows, const std::vector<PredictionRow>& predictions,
    std::string_view bin_scheme_id = {});

// Forecasts of one search's events that were followed by an evaluation, by payload.candidate_id:
// forecast_completed with bin_probabilities (and surrogate_label, bin_scheme_id, predicted_bin,
// failure_probability, expected_log2_speedup, baseline_candidate_id where there are any), then
// evaluation_completed with aggregated_speedup, or evaluation_failed. Of several forecasts of a
// candidate the last before its evaluation counts; candidate_selected with the reason "audit" and
// an audit_propensity gives its weight. Events that lack these are skipped. INVALID_ARGUMENT: a
// field that is there is malformed.
[[nodiscard]] absl::StatusOr<std::vector<NamedOutcome>> EventOutcomes(
    const std::vector<SearchEventRow>& events, std::string_view bin_scheme_id = {});

// How many rows have each bin, and how many another than their scheme makes of their speedup.
struct LabelCounts {
  std::vector<uint64_t> by_bin;  // from bin 1 on
  uint64_t odd_labels = 0;
};
struct LabelledRow {
  double speedup = 1;
  int bin = 0;
  std::string bin_scheme_id;  // empty: the published formula
};
[[nodiscard]] absl::StatusOr<LabelCounts> CountLabels(const std::vector<LabelledRow>& rows);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_ROW_OUTCOMES_H_
