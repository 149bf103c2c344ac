#ifndef KERNELCAST_SERVICES_CLI_REPORT_HTML_H_
#define KERNELCAST_SERVICES_CLI_REPORT_HTML_H_

#include <string>

#include "services/cli/report/model.h"

namespace kernelcast::cli {

// Renders the report as one self-contained HTML page with style, script, charts and data. Its
// content security policy keeps a browser from loading anything and from running other scripts.
std::string RenderReport(const ReportInput& input);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_HTML_H_
