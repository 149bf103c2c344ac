#ifndef KERNELCAST_SERVICES_CLI_CORE_PAPER_ROWS_H_
#define KERNELCAST_SERVICES_CLI_CORE_PAPER_ROWS_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast::cli {

// The JSON lines formats in which arXiv 2605.31464 published its data, and in which Kernelcast
// exports. docs/reference/formats.md lists their fields.

enum class RowFormat {
  kRecords,  // ExportRecord, Kernelcast's own
  kEvaluationRows,
  kPredictionRows,
  kTrainingRows,
  kDiscoveryPairs,
  kSearchEvents,
};

inline constexpr RowFormat kRowFormats[] = {RowFormat::kRecords,        RowFormat::kEvaluationRows,
                                            RowFormat::kPredictionRows, RowFormat::kTrainingRows,
                                            RowFormat::kDiscoveryPairs, RowFormat::kSearchEvents};

std::string_view Name(RowFormat format);  // "evaluation-rows"
// INVALID_ARGUMENT: lists the formats.
[[nodiscard]] absl::StatusOr<RowFormat> ParseRowFormat(std::string_view name);

using RowJson = nlohmann::ordered_json;

// clang-tidy 14 wrongly assumes that moving JSON throws.
// NOLINTBEGIN(bugprone-exception-escape)

// Origin of a row: strings, numbers or null, kept as they are.
struct RowOrigin {
  RowJson source_id;
  RowJson source_search;
  RowJson internal_experiment;
};

// A candidate compared with an anchor, with the measured speedup over it.
struct EvaluationRow {
  std::string comparison_id;
  std::string pack;
  std::string anchor_code;
  std::string candidate_code;
  std::string hardware;
  double aggregated_speedup = 1;
  int true_bin = 0;
  RowOrigin origin;
  // Kernelcast's extension. Empty: the published formula.
  std::string bin_scheme_id;
  // Kernelcast's extension: the propensity of the measurement, for weighting.
  std::optional<double> propensity;
};

struct PredictionRow {
  std::string comparison_id;
  std::string pack;
  std::string surrogate_label;
  int64_t repeat = 0;
  std::optional<int> predicted_bin;
  // By bin from 1 on, as given: not normalised, possibly incomplete. Empty if nothing could be
  // parsed.
  std::vector<double> bin_probabilities;
  std::string reasoning;
  std::optional<double> raw_probability_sum;
  bool parse_failed = false;
  std::string parse_error;
  std::optional<int64_t> input_tokens;
  std::optional<int64_t> output_tokens;
  std::optional<double> elapsed_s;
  // Kernelcast's extensions.
  std::string bin_scheme_id;
  std::optional<double> failure_probability;
  std::optional<double> expected_log2_speedup;
  // The model declined to forecast; it names no bin then.
  bool abstained = false;
  std::optional<double> cost_dollars;
};

enum class PairType { kSeed, kParentEdit, kPair };
std::string_view Name(PairType type);  // "parent_edit"

// Fields that `kernelcast export --format rl` adds to a training row; absent in published data.
struct TrainingDetails {
  std::string bin_scheme_id;
  std::string prompt_version;
  std::string prompt_hash;
  std::string answer_schema_hash;
  // Interval of the speedup, and the bins of its ends: the noise of the label.
  double speedup_low = 0;
  double speedup_high = 0;
  double confidence = 0;
  int low_bin = 0;
  int high_bin = 0;
  // Provenance of the measurements behind the label.
  RowJson provenance;
};

struct TrainingRow {
  std::string row_id;
  std::string pack;
  std::string anchor_code;
  std::string candidate_code;
  double aggregated_speedup = 1;
  int relative_bin = 0;
  PairType pair_type = PairType::kSeed;
  std::string hardware;
  RowOrigin origin;
  std::optional<TrainingDetails> details;
};

struct DiscoveryPair {
  std::string pair_id;
  std::string problem_id;
  std::string benchmark_family;  // "gpu_mode", "kernelbench_l3"; from Kernelcast: "kernelcast"
  std::string parent_code;
  std::string child_code;
  double g_speedup = 1;  // of the child over the parent
  int true_bin = 0;
  std::string hardware;
  std::string parent_node_id;
  std::string child_node_id;
  RowOrigin origin;
  std::string bin_scheme_id;  // Kernelcast's extension
};

// An event of a search. "candidate_deferred" is the published name for pruned candidates.
struct SearchEventRow {
  int64_t event_index = 0;
  std::string event_kind;
  RowJson payload;  // an object
};
// NOLINTEND(bugprone-exception-escape)

inline constexpr std::string_view kSearchEventKinds[] = {
    "search_initialized",   "step_started",       "step_completed",     "mutation_requested",
    "mutation_completed",   "mutation_failed",    "forecast_requested", "forecast_completed",
    "forecast_failed",      "candidate_selected", "candidate_deferred", "evaluation_requested",
    "evaluation_completed", "evaluation_failed",  "mutations_drained",  "forecasts_drained",
    "evaluations_drained"};

// Parses rows. INVALID_ARGUMENT: "FIELD: VALUE is not ALLOWED". Unknown fields are ignored.
[[nodiscard]] absl::StatusOr<EvaluationRow> EvaluationRowFromJson(const RowJson& json);
[[nodiscard]] absl::StatusOr<PredictionRow> PredictionRowFromJson(const RowJson& json);
[[nodiscard]] absl::StatusOr<TrainingRow> TrainingRowFromJson(const RowJson& json);
[[nodiscard]] absl::StatusOr<DiscoveryPair> DiscoveryPairFromJson(const RowJson& json);
[[nodiscard]] absl::StatusOr<SearchEventRow> SearchEventFromJson(const RowJson& json);

// Writes the published fields in their order, then the extensions that are set.
RowJson ToJson(const EvaluationRow& row);
RowJson ToJson(const PredictionRow& row);
RowJson ToJson(const TrainingRow& row);
RowJson ToJson(const DiscoveryPair& row);
RowJson ToJson(const SearchEventRow& row);

// Returns the format whose distinctive fields the line has. INVALID_ARGUMENT: lists the formats.
[[nodiscard]] absl::StatusOr<RowFormat> DetectFormat(const RowJson& json);

// Calls `on_line` with each non-blank line and its text. INVALID_ARGUMENT and errors of `on_line`
// are prefixed with "FILE:LINE: ". The file may be compressed with gzip. Errors and limits as of
// ForEachGzipRecord.
[[nodiscard]] absl::Status ReadJsonLines(
    const std::string& path,
    const std::function<absl::Status(const RowJson& json, const std::string& text)>& on_line);

// Serialises to one line; invalid UTF-8 is replaced.
std::string JsonLine(const RowJson& json);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_PAPER_ROWS_H_
