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

// Settled evaluations as rows of the published formats (docs/formats.md).

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
  // What would have made a row but for a source that is nowhere to be had.
  uint64_t without_source = 0;
};

// Each correct measurement against the baseline of its forecast, else the reference; labelled by
// `scheme`. Their ids are the request ids, as those of the predictions.
RowExport ExportEvaluationRows(const std::vector<RecordToExport>& records, const SourceBook& book,
                               const BinScheme& scheme);
// Each forecast on which was decided.
RowExport ExportPredictionRows(const std::vector<RecordToExport>& records);
// Each child that was measured, against the parent that was measured too, on the same hardware.
RowExport ExportDiscoveryPairs(const std::vector<RecordToExport>& records, const SourceBook& book,
                               const BinScheme& scheme);

struct TrainingOptions {
  const BinScheme* scheme = &BinScheme::Default();
  // Pairs of any two candidates, drawn for each problem, target and device besides seeds and edits.
  uint64_t pairs = 0;
  uint64_t seed = 1;
  // Adds TrainingDetails, with these.
  bool details = false;
  std::string prompt_version;
  std::string prompt_hash;
  std::string answer_schema_hash;
};

struct TrainingRows {
  std::vector<TrainingRow> rows;
  uint64_t without_source = 0;
};

// Every candidate once for each device, by its measurement at the highest level, the tightest of
// these: against the reference, against its parent where that was measured, and `pairs`. The
// interval of a ratio of two measurements is the widest that theirs allow.
TrainingRows MakeTrainingRows(const std::vector<RecordToExport>& records, const SourceBook& book,
                              const TrainingOptions& options);

// The same number of rows of each bin that has any: `per_bin`, or as many as the rarest of them has
// where that is 0; a bin with fewer gives all. Within a bin the packs take turns, so that large
// ones do not crowd out small ones; rows are drawn and their order shuffled by `seed`. The same
// rows for the same input, in whatever order it comes.
std::vector<TrainingRow> BalanceRows(std::vector<TrainingRow> rows, uint64_t per_bin,
                                     uint64_t seed);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_ROW_EXPORT_H_
