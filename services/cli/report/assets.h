#ifndef KERNELCAST_SERVICES_CLI_REPORT_ASSETS_H_
#define KERNELCAST_SERVICES_CLI_REPORT_ASSETS_H_

#include <string_view>

namespace kernelcast::cli {

// The contents of assets/report.css, assets/history.js and assets/report.js, compiled in.
std::string_view ReportStyleSheet();
std::string_view HistoryScript();
std::string_view ReportScript();

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_ASSETS_H_
