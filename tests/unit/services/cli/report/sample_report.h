#ifndef KERNELCAST_TESTS_UNIT_SERVICES_CLI_REPORT_SAMPLE_REPORT_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_CLI_REPORT_SAMPLE_REPORT_H_

#include "services/cli/report/model.h"

namespace kernelcast::cli {

// A search over `candidates` candidates as the orchestrator might have recorded it: forecasts that
// get better with labels, every kind of outcome and decision, a confirmed best. The same each time.
ReportInput SampleReport(int candidates);

// One candidate of it, measured with this speedup.
ReportCandidate MeasuredCandidate(const std::string& id, double speedup,
                                  DecisionReason reason = DecisionReason::kPromising);
ReportCandidate PrunedCandidate(const std::string& id);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_CLI_REPORT_SAMPLE_REPORT_H_
