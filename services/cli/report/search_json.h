#ifndef KERNELCAST_SERVICES_CLI_REPORT_SEARCH_JSON_H_
#define KERNELCAST_SERVICES_CLI_REPORT_SEARCH_JSON_H_

#include <nlohmann/json.hpp>

#include "services/cli/report/analysis.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// Adds what a search used and found besides its candidates to the JSON of the summary and of the
// page, each under its key:
//   usage     device hours, and tokens of forecasts, writers and critics
//   cost      in the currency of the prices, with these; absent without a price
//   learning  hit rates of the forecasts; absent without a forecast to count
//   lessons   number of lessons of earlier searches; absent without any
//   archive   what the strategy derives candidates from; absent if it derives nothing
void AddSearchJson(const ReportInput& input, const ReportAnalysis& analysis,
                   nlohmann::ordered_json& json);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_SEARCH_JSON_H_
