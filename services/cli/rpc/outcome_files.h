#ifndef KERNELCAST_SERVICES_CLI_RPC_OUTCOME_FILES_H_
#define KERNELCAST_SERVICES_CLI_RPC_OUTCOME_FILES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/model_answer.h"
#include "services/cli/core/paper_rows.h"
#include "services/cli/core/row_outcomes.h"
#include "services/cli/core/search_curves.h"

namespace kernelcast::cli {

// Rows with measured speedups and no forecast.
struct LabelFile {
  std::string file;
  RowFormat format = RowFormat::kTrainingRows;
  LabelCounts counts;
};

// Tokens and cost of the answers of a surrogate.
struct AnswerUsage {
  uint64_t rows = 0;
  uint64_t abstained = 0;
  uint64_t parse_failed = 0;
  UnreadableByFault unreadable;  // those that name what is wrong, as "fault: text"
  // Sums over the rows that name tokens and costs.
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  double cost_dollars = 0;
  double elapsed_s = 0;
  void Add(const PredictionRow& row);
};

// Contents of files of exported records and published rows, for scoring forecasts.
struct OutcomeFiles {
  std::vector<NamedOutcome> outcomes;
  std::vector<LabelFile> labels;
  // Of the searches in records, a line for each file.
  std::vector<SearchCurve> curves;
  // The usage in prediction rows, by surrogate.
  std::map<std::string, AnswerUsage> usage;
  // Measured candidates whose forecast's baseline is not in the files.
  uint64_t unknown_baseline = 0;
  // Remarks for the reader, in sentences.
  std::vector<std::string> notes;
};

// Reads the files, each in the format of its first line, or all in `format`. Predictions are joined
// with the evaluation rows, training rows and discovery pairs of all files. INVALID_ARGUMENT: names
// file, line, field, value and what is allowed.
[[nodiscard]] absl::StatusOr<OutcomeFiles> ReadOutcomes(const std::vector<std::string>& files,
                                                        std::optional<RowFormat> format,
                                                        std::string_view bin_scheme_id);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_RPC_OUTCOME_FILES_H_
