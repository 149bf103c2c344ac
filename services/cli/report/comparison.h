#ifndef KERNELCAST_SERVICES_CLI_REPORT_COMPARISON_H_
#define KERNELCAST_SERVICES_CLI_REPORT_COMPARISON_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "services/cli/core/suite_statistics.h"
#include "services/cli/report/suite.h"

namespace kernelcast::cli {

// A side of a comparison: the results of a suite, of a search, of exported records, or of one
// kernel.
struct ComparedSide {
  std::string title;
  // Whether tasks and candidates of `rows` have the names of a suite.
  bool named = false;
  std::vector<SuiteRow> rows;
  // The row that stands for a task, by problem id: the best candidate of a search. By default the
  // fastest correct one of `rows`.
  std::map<std::string, SuiteRow> best;
  double device_seconds = 0;
  uint64_t measured = 0;
  HitRate forecasts;
};
// Fills `device_seconds`, `measured` and `forecasts` from the rows.
void CountRows(ComparedSide& side);

enum class ChangeKind {
  kFaster,
  kSlower,
  kSame,            // within noise, or the same failure
  kVerdictBetter,   // failed before, correct now
  kVerdictWorse,    // correct before, failed now
  kVerdictChanged,  // another failure
  kNotCompared,     // a side has no verdict
};
std::string_view Name(ChangeKind kind);  // "verdict_worse"

struct ComparedPair {
  std::string task;
  std::string name;  // the candidate; empty: the fastest of the task on each side
  ChangeKind kind = ChangeKind::kNotCompared;
  SuiteVerdict before = SuiteVerdict::kNotJudged;
  SuiteVerdict after = SuiteVerdict::kNotJudged;
  Ratio speedup_before = {};  // 0: none
  Ratio speedup_after = {};
  SpeedChange change;
  std::string reason;  // why it fails or was not judged after
};

struct RunComparison {
  // Candidate by candidate if the sides share names, otherwise task by task.
  bool by_candidate = false;
  std::vector<ComparedPair> pairs;
  uint64_t only_before = 0;
  uint64_t only_after = 0;
  std::map<ChangeKind, uint64_t> counts;
  MeanSpeedup mean;  // of the ratios of the pairs with two speedups
  // Something is slower beyond noise, or a verdict got worse.
  bool worse = false;
};
// Changes below `least_change` (0.05: 5%) count as the same.
RunComparison CompareRuns(const ComparedSide& before, const ComparedSide& after,
                          double least_change = 0);

// For a terminal. `all`: also the pairs that did not change.
std::string ComparisonText(const ComparedSide& before, const ComparedSide& after,
                           const RunComparison& comparison, bool all, const Style& style,
                           int width);
// A page that loads nothing. `links`: HTML, on its top.
std::string ComparisonHtml(const ComparedSide& before, const ComparedSide& after,
                           const RunComparison& comparison, const std::string& links);
nlohmann::ordered_json ComparisonJson(const ComparedSide& before, const ComparedSide& after,
                                      const RunComparison& comparison);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_COMPARISON_H_
