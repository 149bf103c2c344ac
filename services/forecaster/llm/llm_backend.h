#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_LLM_BACKEND_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_LLM_BACKEND_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/llm/chat_client.h"
#include "services/forecaster/core/backend.h"
#include "services/forecaster/core/forecast_cache.h"
#include "services/forecaster/llm/forecast_prompt.h"
#include "services/forecaster/llm/forecast_samples.h"
#include "services/forecaster/llm/llm_metrics.h"

namespace kernelcast::forecaster {

struct LlmBackendOptions {
  explicit LlmBackendOptions(ForecastPrompt asked_with) : prompt(std::move(asked_with)) {}

  ForecastPrompt prompt;
  // Models of the client's endpoints. Part of the cache key of an answer.
  std::vector<std::string> models;
  // Number of answers per question. They are pooled.
  int samples = 1;
  // Limit for one answer, including reasoning. 0: the endpoint's default.
  int max_answer_tokens = 8192;
  // Empty: the endpoint's default.
  std::optional<double> temperature;
  size_t max_prompt_bytes = 192 << 10;
  // Maximum input and output tokens per problem in this process's lifetime. 0: no limit. Requests
  // in progress count by an estimate.
  uint64_t max_problem_tokens = 0;
  // If every endpoint is known to be down: wait for one, up to the caller's deadline, instead of
  // abstaining at once.
  bool wait_for_recovery = false;
  LadderOptions ladder;  // its rungs are those of the prompt
};

// Forecasts by asking language models.
//
// A question is the rendered prompt. Its answer is looked up in the cache. If the same question is
// already in progress, the caller joins it. Otherwise it is sent `samples` times: one request
// first, the others when its first token has arrived, because the prompt is then in the endpoint's
// cache. A ResponseLadder chooses how the answer format is requested.
//
// An unreadable answer is requested once more, one rung lower, unless it was cut off at the limit
// on tokens, refused or filtered. A prompt that exceeds the model's context is sent once more
// without feedback and anchor. Readable answers are pooled with equal weights. If the model
// declined at least as often as it forecast, it has deferred (kModelDeferred). If no answer was
// readable, the result is kUnparsable, or kEndpointUnavailable if there was no answer; these are
// not cached. Every question gets a result. Results are cached only if all samples were readable.
//
// If the question has an anchor, models compare the candidate with the anchor, and the answer is
// converted to be relative to the reference (anchoring.h). When the candidate is asked about again,
// the first answer is reused, unless the incumbent is beyond the range of that answer.
//
// Each caller is answered once. When all callers of a question are gone, the endpoint's streams are
// closed. The first caller is charged the tokens and cost, the others nothing.
//
// A single thread renders, parses and owns all state.
class LlmBackend final : public Backend {
 public:
  static constexpr std::string_view kName = kLlmBackendName;

  // `cache` and `metrics` may be null. All pointers must outlive this object and its calls, which
  // the client may end later.
  LlmBackend(LlmBackendOptions options, llm::ChatClient* client, ForecastCache* cache,
             LlmMetrics* metrics, const Clock& clock = Clock::Real());
  // Cancels running requests. Callers get no more answers.
  ~LlmBackend() override;

  std::string_view name() const override { return kName; }
  void Forecast(ForecastInput input, const ForecastCall& call, Done done) override;
  void Observe(std::vector<ObservedLabel> labels) override;
  BackendDescription Describe() const override;
  absl::StatusOr<RenderedPrompt> ShowPrompt(const ForecastInput& input) const override;

 private:
  class Core;
  // Shared with the client's callbacks, which may run after this object is destroyed.
  const std::shared_ptr<Core> core_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_LLM_BACKEND_H_
