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
#include "services/forecaster/llm/llm_metrics.h"

namespace kernelcast::forecaster {

struct LlmBackendOptions {
  explicit LlmBackendOptions(ForecastPrompt asked_with) : prompt(std::move(asked_with)) {}

  ForecastPrompt prompt;
  // That the client's endpoints are configured with: part of an answer's name in the cache.
  std::vector<std::string> models;
  // Answers to each question, which are pooled.
  int samples = 1;
  // Of one answer, reasoning included; 0: as many as the endpoint gives.
  int max_answer_tokens = 8192;
  // Nothing: the endpoint's own.
  std::optional<double> temperature;
  size_t max_prompt_bytes = 192 << 10;
  // Input and output tokens that may be spent on one problem while this process lives; 0: any
  // number. What is under way counts by an estimate.
  uint64_t max_problem_tokens = 0;
  // While every endpoint is known to be down: wait for one, up to the caller's deadline, rather
  // than abstain at once.
  bool wait_for_recovery = false;
  LadderOptions ladder;  // its rungs are the prompt's
};

// Forecasts by asking language models.
//
// A question is the rendered prompt. Its answer is looked up in the cache; the same question asked
// again while it is under way joins it; else it is asked `samples` times, the first alone, the rest
// when its first token has come and the prompt is in the endpoint's cache. How an answer's form is
// asked for is up to a ResponseLadder.
//
// An answer that cannot be read is asked for once more, one rung lower. What could be read is
// pooled in equal parts; where the model declined at least as often as it forecast, it has deferred
// (kModelDeferred). Where nothing could be read the question ends as kUnparsable, or as
// kEndpointUnavailable where there was no answer: it never stays open, and neither is cached. The
// cache takes results of which every sample could be read.
//
// Whoever asked is answered once. When all who asked have left, the endpoint's streams are closed.
// The first to ask is told the tokens and cost, the others none: they cost nothing.
//
// One thread of its own renders, parses and keeps all state.
class LlmBackend final : public Backend {
 public:
  static constexpr std::string_view kName = "llm";

  // `cache` and `metrics` may be null. All outlive this object, whose calls the client may end
  // later.
  LlmBackend(LlmBackendOptions options, llm::ChatClient* client, ForecastCache* cache,
             LlmMetrics* metrics, const Clock& clock = Clock::Real());
  // Cancels what is under way; nobody is answered any more.
  ~LlmBackend() override;

  std::string_view name() const override { return kName; }
  void Forecast(ForecastInput input, const ForecastCall& call, Done done) override;
  void Observe(std::vector<ObservedLabel> labels) override;
  BackendDescription Describe() const override;
  absl::StatusOr<RenderedPrompt> ShowPrompt(const ForecastInput& input) const override;

 private:
  class Core;
  // Shared with the client's callbacks, which may come when this object is gone.
  const std::shared_ptr<Core> core_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_LLM_BACKEND_H_
