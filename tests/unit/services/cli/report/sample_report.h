#ifndef KERNELCAST_TESTS_UNIT_SERVICES_CLI_REPORT_SAMPLE_REPORT_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_CLI_REPORT_SAMPLE_REPORT_H_

#include "services/cli/report/model.h"

namespace kernelcast::cli {

// A search over `candidates` candidates as recorded by the orchestrator: forecasts that improve
// with labels, every kind of outcome and decision, and a confirmed best. Deterministic.
ReportInput SampleReport(int candidates);

// One of its candidates, measured with this speedup.
ReportCandidate MeasuredCandidate(const std::string& id, double speedup,
                                  DecisionReason reason = DecisionReason::kPromising);
ReportCandidate PrunedCandidate(const std::string& id);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_CLI_REPORT_SAMPLE_REPORT_H_
