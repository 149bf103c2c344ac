#ifndef KERNELCAST_SERVICES_CLI_REPORT_SEARCH_COST_H_
#define KERNELCAST_SERVICES_CLI_REPORT_SEARCH_COST_H_

#include <vector>

#include "services/cli/core/cost.h"
#include "services/cli/core/search_curves.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// The cost of a search up to each settled candidate, in the order of the candidates.
//
// Device seconds: of the measurements so far, with preparation, without confirmations.
std::vector<double> DeviceSecondsSoFar(const ReportInput& input, const ReportAnalysis& analysis);

// What the search had found after some use of the device. `line` and `problem` of the result are
// empty.
SearchCurve CurveOf(const ReportInput& input);

// Tokens: of the forecasts that decided candidates so far, and of the requests for kernels and to
// critics that had ended (ReportInput::token_spends). Empty if none were spent.
std::vector<double> TokensSoFar(const ReportInput& input, const ReportAnalysis& analysis);

// The cost of the whole search: all of the device time, and all tokens of forecasts, writers and
// critics, also those that arrived after the last candidate was settled. Records without their
// search have the tokens of forecasts only.
SearchUsage UsageOf(const ReportInput& input, const ReportAnalysis& analysis);

// All tokens of UsageOf, with or without a price. Only input and output tokens are set.
TokenUsage AllTokensOf(const ReportInput& input);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_SEARCH_COST_H_
