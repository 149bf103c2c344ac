#ifndef KERNELCAST_SERVICES_CLI_REPORT_EVAL_HTML_H_
#define KERNELCAST_SERVICES_CLI_REPORT_EVAL_HTML_H_

#include <cstdint>
#include <string>
#include <vector>

#include "services/cli/core/forecast_eval.h"
#include "services/cli/core/search_curves.h"

namespace kernelcast::cli {

struct EvaluatedGroup {
  std::string name;
  ForecastEvaluation evaluation;
};

// A metric and how it is shown.
struct EvaluatedMetric {
  const char* name;
  const char* key;
  Interval ForecastEvaluation::*interval;
  const char* better;
};
const std::vector<EvaluatedMetric>& EvaluatedMetrics();

// Renders figures and charts of evaluated forecasts and of searches as one self-contained HTML page
// without scripts.
std::string RenderEvaluation(const std::vector<EvaluatedGroup>& groups,
                             const std::vector<MeanCurve>& searches,
                             const std::string& generator_version, int64_t generated_ns);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_EVAL_HTML_H_
