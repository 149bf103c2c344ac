#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_REPORTING_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_REPORTING_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/problem_argument.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// Fetches the records of a search, with sources, for its report. `problem` adds title, description
// and reference; if it is null, the problem is looked up by name.
[[nodiscard]] absl::StatusOr<ReportInput> FetchReport(const Context& context,
                                                      v1::Orchestrator::Stub& stub,
                                                      const v1::Search& search,
                                                      const Problem* problem);

// Adds the contents of the problem's files.
void AddProblem(const Problem& problem, const std::string& target, ReportInput& input);

// AddProblem for a problem known by name. Does nothing if it is not found.
void AddProblemByName(const Context& context, const std::string& name,
                      const std::string& problem_id, ReportInput& input);

// Renders and writes the report; "-" is standard output.
[[nodiscard]] absl::Status WriteReport(Console& console, const ReportInput& input,
                                       const std::string& path);

// Returns STATE/reports/NAME.html, for any name.
std::string DefaultReportPath(const std::string& state_dir, const std::string& name);

// Summary of a finished search: a few lines and a table of the best candidates.
std::string SummaryText(const ReportInput& input, const ReportAnalysis& analysis,
                        const Style& style, int width);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_REPORTING_H_
