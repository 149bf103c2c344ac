#ifndef KERNELCAST_SERVICES_CLI_REPORT_HISTORY_H_
#define KERNELCAST_SERVICES_CLI_REPORT_HISTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernelcast/v1/orchestrator.pb.h"
#include "services/cli/core/suite_statistics.h"
#include "services/cli/report/suite.h"

namespace kernelcast::cli {

// The page of all searches and suites. Texts are neither escaped nor trusted.

enum class HistoryKind { kSearch, kSuite };
std::string_view Name(HistoryKind kind);  // "search"

struct HistoryRow {
  HistoryKind kind = HistoryKind::kSearch;
  std::string id;    // of the search, or the name of the suite's folder among all suites
  std::string name;  // of the problem, or the suite's title
  std::string note;  // below the name
  std::string target;
  std::string device_model;
  int64_t started_ns = 0;  // 0: unknown
  std::string state;       // a word
  std::string reason;      // of the state
  uint64_t candidates = 0;
  uint64_t measured = 0;
  std::optional<Ratio> best;
  MeanSpeedup mean;  // of a suite
};

// The speedup of a search's best candidate, confirmed if it is. Nothing: there is none, or no
// finalist carries over to the held-out bench shapes.
std::optional<Ratio> BestSpeedupOf(const v1::Search& search);

HistoryRow HistoryRowOf(const v1::Search& search);
// States: "done", or "incomplete" if another run of the suite may judge more. Without id and note.
HistoryRow HistoryRowOf(const SuiteInput& suite);

// Where the page and those that it leads to are served.
inline constexpr char kHistoryPath[] = "/history";
inline constexpr char kHistorySearchPath[] = "/history/search";    // ?id=
inline constexpr char kHistorySuitePath[] = "/history/suite";      // ?id=
inline constexpr char kHistoryComparePath[] = "/history/compare";  // ?before=&after=, as KeyOf
// "search:ID", "suite:ID".
std::string KeyOf(HistoryKind kind, std::string_view id);

// The page, newest row first. `notices` stand above the table. `status_page`: URL of the status
// page of the orchestrator; empty: none.
std::string HistoryHtml(std::vector<HistoryRow> rows, const std::vector<std::string>& notices,
                        const std::string& status_page);

// A page that says why there is no other.
std::string HistoryFailureHtml(std::string_view message);

// Links for the top of a page, as HTML: back to the history, and to a comparison the other way
// round.
std::string HistoryLinks();
std::string HistoryCompareLink(std::string_view before, std::string_view after);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_HISTORY_H_
