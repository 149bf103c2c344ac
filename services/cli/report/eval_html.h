#ifndef KERNELCAST_SERVICES_CLI_REPORT_EVAL_HTML_H_
#define KERNELCAST_SERVICES_CLI_REPORT_EVAL_HTML_H_

#include <cstdint>
#include <string>
#include <vector>

#include "services/cli/core/forecast_eval.h"

namespace kernelcast::cli {

struct EvaluatedGroup {
  std::string name;
  ForecastEvaluation evaluation;
};

// A metric as people and machines are shown it.
struct EvaluatedMetric {
  const char* name;
  const char* key;
  Interval ForecastEvaluation::*interval;
  const char* better;
};
const std::vector<EvaluatedMetric>& EvaluatedMetrics();

// Figures and pictures of evaluated forecasts as one HTML page that needs nothing else and runs no
// script.
std::string RenderEvaluation(const std::vector<EvaluatedGroup>& groups,
                             const std::string& generator_version, int64_t generated_ns);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_EVAL_HTML_H_
