#ifndef KERNELCAST_SERVICES_CLI_REPORT_ROW_EXPORT_H_
#define KERNELCAST_SERVICES_CLI_REPORT_ROW_EXPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/bins.h"
#include "services/cli/core/paper_rows.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// Settled evaluations as rows of the published formats (docs/reference/formats.md).

struct RecordToExport {
  ReportCandidate candidate;
  std::string problem_name;
  std::string search_id;
};

// Sources that records may lack.
struct SourceBook {
  std::map<std::string, std::string> candidates;  // by candidate id
  std::map<std::string, std::string> references;  // by ReferenceKey
};
std::string ReferenceKey(const std::string& problem_id, const std::string& target);

struct RowExport {
  std::vector<RowJson> rows;
  // Number of rows skipped because a source is not available.
  uint64_t without_source = 0;
};

// Each correct measurement against the baseline of its forecast, or else the reference, labelled by
// `scheme`. Rows have the request ids as ids, as predictions do.
RowExport ExportEvaluationRows(const std::vector<RecordToExport>& records, const SourceBook& book,
                               const BinScheme& scheme);
// Each forecast that a decision was based on.
RowExport ExportPredictionRows(const std::vector<RecordToExport>& records);
// The fields of a prediction that follow from its forecast.
PredictionRow PredictionRowOf(const Forecast& forecast);
// Each measured child against its parent, if that was measured on the same hardware.
RowExport ExportDiscoveryPairs(const std::vector<RecordToExport>& records, const SourceBook& book,
                               const BinScheme& scheme);

struct TrainingOptions {
  const BinScheme* scheme = &BinScheme::Default();
  // Additional random pairs of candidates for each problem, target and device.
  uint64_t pairs = 0;
  uint64_t seed = 1;
  // Adds TrainingDetails with the following values.
  bool details = false;
  std::string prompt_version;
  std::string prompt_hash;
  std::string answer_schema_hash;
};

struct TrainingRows {
  std::vector<TrainingRow> rows;
  // The records behind each row, by row id. No anchor: the reference.
  struct Origin {
    const RecordToExport* record = nullptr;
    const RecordToExport* anchor = nullptr;
  };
  std::map<std::string, Origin> origins;
  uint64_t without_source = 0;
};

// One candidate row per device, from its measurement at the highest level (the tightest of these):
// against the reference, against its parent if that was measured, and `pairs` random ones. The
// interval of a ratio of two measurements is the widest that theirs allow.
TrainingRows MakeTrainingRows(const std::vector<RecordToExport>& records, const SourceBook& book,
                              const TrainingOptions& options);

// Selects the same number of rows from each non-empty bin: `per_bin`, or if that is 0 the size of
// the smallest bin. A bin with fewer rows contributes all. Within a bin, packs take turns, so that
// large packs do not dominate. Rows are drawn and shuffled by `seed`. The result does not depend on
// the order of the input.
std::vector<TrainingRow> BalanceRows(std::vector<TrainingRow> rows, uint64_t per_bin,
                                     uint64_t seed);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_ROW_EXPORT_H_
