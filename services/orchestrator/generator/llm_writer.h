#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_LLM_WRITER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_LLM_WRITER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/llm/chat_client.h"
#include "services/orchestrator/core/ports.h"
#include "services/orchestrator/generator/kernel_prompt.h"
#include "services/orchestrator/generator/writer_metrics.h"

namespace kernelcast::orchestrator {

struct LlmWriterOptions {
  explicit LlmWriterOptions(KernelPrompt asked_with) : prompt(std::move(asked_with)) {}

  KernelPrompt prompt;
  // Of one answer, reasoning included; 0: as many as the endpoint gives.
  int max_answer_tokens = 32'768;
  // Nothing: the endpoint's own.
  std::optional<double> temperature;
  size_t max_prompt_bytes = 192 << 10;
  // Where kernels of a target run. Thread-safe and quick; may be empty.
  std::function<KernelSite(const std::string& target)> site_for;
};

// Has kernels written by language models: one request a kernel, without samples, tools or schemas,
// which every endpoint understands. Where a prompt is too long for the endpoint, it is asked again
// with less of what was tried. Prompts are rendered on the caller's thread, answers read on the
// client's.
class LlmWriter final : public KernelWriter {
 public:
  // `metrics` may be null. Both must outlive this object and the calls that it has made, which the
  // client's shutdown ends.
  LlmWriter(LlmWriterOptions options, llm::ChatClient* client, WriterMetrics* metrics);
  ~LlmWriter() override;

  void Write(GenerationQuery query, WriteDone done) override;

 private:
  class Core;
  // Shared with the calls, which may end when this object is gone.
  const std::shared_ptr<Core> core_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_LLM_WRITER_H_
