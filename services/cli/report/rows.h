#ifndef KERNELCAST_SERVICES_CLI_REPORT_ROWS_H_
#define KERNELCAST_SERVICES_CLI_REPORT_ROWS_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "common/domain/candidate_counts.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// A candidate in a report's list. Numbers are indices into ReportInput::candidates.
struct ReportRow {
  size_t standing = 0;                // the evaluation that counts; see CountedCandidate
  std::vector<size_t> confirmations;  // measurements at the final level after the first one
  std::vector<size_t> others;
  std::optional<Ratio> screening;
  std::optional<Ratio> final;
  // The final value if there is one, else the screening value.
  const Ratio* speedup() const {
    return final.has_value() ? &*final : screening.has_value() ? &*screening : nullptr;
  }
};

// How an evaluation ended, for counting.
EvaluationOutcome OutcomeOf(const ReportCandidate& candidate);

// By evaluation: whether it confirms an earlier measurement of its candidate.
std::vector<bool> Confirmations(const ReportInput& input);

// One row per candidate, best first: by final value, then by screening value, then noisy and failed
// ones, pruned ones by forecast, and rejected ones.
std::vector<ReportRow> ReportRows(const ReportInput& input, const std::vector<bool>& confirmations);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_ROWS_H_
