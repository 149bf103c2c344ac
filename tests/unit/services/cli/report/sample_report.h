#ifndef KERNELCAST_TESTS_UNIT_SERVICES_CLI_REPORT_SAMPLE_REPORT_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_CLI_REPORT_SAMPLE_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "services/cli/core/forecast_eval.h"
#include "services/cli/report/model.h"

namespace kernelcast::cli {

// A search over `candidates` candidates as recorded by the orchestrator: forecasts that improve
// with labels, every kind of outcome and decision, and a confirmed best. Deterministic.
ReportInput SampleReport(int candidates);

// One of its candidates, measured with this speedup.
ReportCandidate MeasuredCandidate(const std::string& id, double speedup,
                                  DecisionReason reason = DecisionReason::kPromising);
ReportCandidate PrunedCandidate(const std::string& id);

// Forecasts with their outcomes. `skipped` counts measured candidates with an unknown baseline.
std::vector<ForecastOutcome> ForecastOutcomes(const std::vector<ReportCandidate>& candidates,
                                              uint64_t* skipped);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_CLI_REPORT_SAMPLE_REPORT_H_
