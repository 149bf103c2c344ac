#ifndef KERNELCAST_SERVICES_CLI_REPORT_SEARCH_JSON_H_
#define KERNELCAST_SERVICES_CLI_REPORT_SEARCH_JSON_H_

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <string>

#include "kernelcast/v1/orchestrator.pb.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// protobuf's JSON of a message (common/convert/proto_json.h), the only form of candidates,
// measurements, forecasts, evaluations and searches in the output of the command line.
nlohmann::ordered_json JsonOf(const google::protobuf::Message& message);

// "running", "done", ...
std::string StatusName(v1::SearchStatus status);

// The summary of a search or of records. Keys besides figures of the report:
//   best      the best candidate, its speedup, and whether it is confirmed and faster; null: none
//   usage     device hours, and tokens of forecasts, writers and critics
//   cost      in the currency of the prices, with these; absent without a price
//   learning  hit rates of the forecasts; absent without a forecast to count
//   lessons   number of lessons of earlier searches; absent without any
//   search    the search, without candidates and lessons; absent for records
nlohmann::ordered_json SummaryJson(const ReportInput& input, const ReportAnalysis& analysis);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_SEARCH_JSON_H_
