#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_LLM_METRICS_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_LLM_METRICS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/lenient_json.h"
#include "common/domain/forecast.h"
#include "common/llm_metrics/endpoint_metrics.h"
#include "common/metrics/metrics.h"
#include "services/forecaster/core/answer_parser.h"
#include "services/forecaster/llm/response_ladder.h"

namespace kernelcast::forecaster {

enum class CacheUse { kHit, kMiss, kCoalesced };

// Metrics of the llm backend and, as an observer, of its client. Labels are names of configured
// endpoints and of enum values. Thread-safe.
class LlmMetrics final : public llm::EndpointMetrics {
 public:
  LlmMetrics(MetricsRegistry& registry, const std::vector<std::string>& endpoints);

  // The result of a question.
  void Forecasted();
  void Abstained(Abstention::Cause cause);
  void Cache(CacheUse use);
  // One answer of an endpoint.
  void Answered(Rung rung, RungOutcome outcome);
  void Faulted(AnswerFault fault);
  // A readable answer needed this repair.
  void Mended(Repair repair);
  void ProbabilitySum(double raw_sum);

 private:
  prometheus::Counter* forecasts_ = nullptr;
  std::map<Abstention::Cause, prometheus::Counter*> abstentions_;
  std::map<CacheUse, prometheus::Counter*> cache_;
  std::map<std::pair<Rung, RungOutcome>, prometheus::Counter*> answers_;
  std::map<AnswerFault, prometheus::Counter*> faults_;
  std::map<Repair, prometheus::Counter*> repairs_;
  prometheus::Histogram* probability_sum_ = nullptr;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_LLM_METRICS_H_
