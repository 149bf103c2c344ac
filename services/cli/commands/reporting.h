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

// Everything that a report needs of a search: the search and its records with sources. `problem`
// adds title, description and reference where it is at hand; otherwise it is looked for by its
// name.
[[nodiscard]] absl::StatusOr<ReportInput> FetchReport(const Context& context,
                                                      v1::Orchestrator::Stub& stub,
                                                      const v1::Search& search,
                                                      const Problem* problem);

// Adds what the problem's files tell.
void AddProblem(const Problem& problem, const std::string& target, ReportInput& input);

// The same for a problem that is only known by name; leaves `input` alone where it is not found.
void AddProblemByName(const Context& context, const std::string& name,
                      const std::string& problem_id, ReportInput& input);

// Renders and writes; "-" is standard output.
[[nodiscard]] absl::Status WriteReport(Console& console, const ReportInput& input,
                                       const std::string& path);

// STATE/reports/NAME.html
std::string DefaultReportPath(const std::string& state_dir, const std::string& name);

// How a search ended, for people: a few lines and the table of its best.
std::string SummaryText(const ReportInput& input, const ReportAnalysis& analysis,
                        const Style& style, int width);
// The same for machines.
Json SummaryJson(const ReportInput& input, const ReportAnalysis& analysis);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_REPORTING_H_
