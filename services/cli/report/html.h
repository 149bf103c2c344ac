#ifndef KERNELCAST_SERVICES_CLI_REPORT_HTML_H_
#define KERNELCAST_SERVICES_CLI_REPORT_HTML_H_

#include <string>

#include "services/cli/report/model.h"

namespace kernelcast::cli {

// The report as one HTML page that needs nothing else: style, script, charts and data are inside,
// and its content security policy lets a browser load nothing and run no script but its own.
std::string RenderReport(const ReportInput& input);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_HTML_H_
