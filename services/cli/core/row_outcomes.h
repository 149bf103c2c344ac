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

// An outcome and the keys by which it can be grouped.
struct NamedOutcome {
  ForecastOutcome outcome;
  std::string problem;
  std::string backend;
  std::string search;
};

struct JoinedRows {
  std::vector<NamedOutcome> outcomes;
  // Predictions without an evaluation row, and evaluation rows without a prediction.
  uint64_t without_truth = 0;
  uint64_t without_prediction = 0;
  // Rows whose bin differs from the bin of their speedup in their scheme; the row's bin is used.
  uint64_t odd_labels = 0;
  // Predictions whose named bin is not their most probable one.
  uint64_t argmax_mismatches = 0;
};

// Labelled pairs as comparisons: their ids are the comparison ids.
EvaluationRow AsComparison(TrainingRow row);
EvaluationRow AsComparison(DiscoveryPair pair);

// Joins predictions with measurements by comparison_id. A prediction uses the bins of the scheme
// that it names, else of `bin_scheme_id`, else of the published formula. Evaluation rows of another
// scheme are relabelled from their speedup. A prediction that failed to parse, or names no bin, is
// unparsable. Probabilities are normalised. INVALID_ARGUMENT: a comparison_id with two evaluation
// rows, or an unknown scheme.
[[nodiscard]] absl::StatusOr<JoinedRows> JoinPredictions(
    const std::vector<EvaluationRow>& rows, const std::vector<PredictionRow>& predictions,
    std::string_view bin_scheme_id = {});

// Extracts the forecasts of one search that were followed by an evaluation, by
// payload.candidate_id: forecast_completed with bin_probabilities (and optionally surrogate_label,
// bin_scheme_id, predicted_bin, failure_probability, expected_log2_speedup, baseline_candidate_id),
// then evaluation_completed with aggregated_speedup, or evaluation_failed. If a candidate has
// several forecasts, the last one before its evaluation counts. candidate_selected with reason
// "audit" or "no_forecast" and an audit_propensity gives its weight. Events that lack these fields
// are skipped. INVALID_ARGUMENT: a malformed field.
[[nodiscard]] absl::StatusOr<std::vector<NamedOutcome>> EventOutcomes(
    const std::vector<SearchEventRow>& events, std::string_view bin_scheme_id = {});

// Number of rows per bin, and number of rows whose bin differs from the bin of their speedup.
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
