#ifndef KERNELCAST_SERVICES_CLI_REPORT_DATA_JSON_H_
#define KERNELCAST_SERVICES_CLI_REPORT_DATA_JSON_H_

#include <string>

#include "services/cli/report/analysis.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// What the page's script and other programs read: schema "kernelcast-report/1". Sources are split
// into their leading #define lines and a body that many candidates share, and are left out beyond
// kMaxEmbeddedSourceBytes in all, those of the slowest first. No '<' occurs in the text, so that it
// can stand in a script element.
inline constexpr size_t kMaxEmbeddedSourceBytes = 8 << 20;
std::string ReportDataJson(const ReportInput& input, const ReportAnalysis& analysis);

// Best first: measured by speedup, then failures, pruned by forecast, rejected.
std::vector<size_t> DisplayOrder(const ReportInput& input);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_DATA_JSON_H_
