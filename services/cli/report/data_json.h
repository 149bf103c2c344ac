#ifndef KERNELCAST_SERVICES_CLI_REPORT_DATA_JSON_H_
#define KERNELCAST_SERVICES_CLI_REPORT_DATA_JSON_H_

#include <string>

#include "services/cli/report/analysis.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// Data for the page's script and other programs: schema "kernelcast-report/2". `candidates` holds
// the evaluations in order of settlement; `rows` has one entry per candidate, best first, with the
// indices of its evaluations. Sources are split into their leading #define lines and a body that
// many candidates share. Beyond kMaxEmbeddedSourceBytes in total, the sources of the slowest
// candidates are left out. The text contains no '<', so it is safe in a script element.
inline constexpr size_t kMaxEmbeddedSourceBytes = 8 << 20;
std::string ReportDataJson(const ReportInput& input, const ReportAnalysis& analysis);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_DATA_JSON_H_
