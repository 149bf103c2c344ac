#ifndef KERNELCAST_SERVICES_CLI_REPORT_CANDIDATES_HTML_H_
#define KERNELCAST_SERVICES_CLI_REPORT_CANDIDATES_HTML_H_

#include <string>

#include "services/cli/report/analysis.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// The section with one row per candidate, best first. Initially only the first kUnfoldedRows rows
// with a speedup are visible; the page's script shows the others on request.
inline constexpr size_t kUnfoldedRows = 40;
std::string CandidatesHtml(const ReportInput& input, const ReportAnalysis& analysis);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_CANDIDATES_HTML_H_
