#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_LLM_WRITER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_LLM_WRITER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/crash_journal.h"
#include "common/llm/chat_client.h"
#include "services/orchestrator/core/ports.h"
#include "services/orchestrator/generator/kernel_prompt.h"
#include "services/orchestrator/generator/writer_metrics.h"

namespace kernelcast::orchestrator {

struct LlmWriterOptions {
  explicit LlmWriterOptions(KernelPrompt asked_with) : prompt(std::move(asked_with)) {}

  KernelPrompt prompt;
  // Limit for one answer, including reasoning. 0: the endpoint's default.
  int max_answer_tokens = 32'768;
  // Empty: the endpoint's default.
  std::optional<double> temperature;
  size_t max_prompt_bytes = 192 << 10;
  // An answer that crashed the process twice is set aside. Null: disabled. Must outlive the writer.
  CrashJournal* crash_journal = nullptr;
  // Where kernels of a target run. Must be thread-safe and quick. May be empty.
  std::function<KernelSite(const std::string& target, const std::string& device_model)> site_for;
};

// Lets language models write kernels. Each kernel takes one plain request without samples, tools or
// schemas, which every endpoint supports. If a prompt is too long for the endpoint, it is repeated
// with fewer earlier attempts. Prompts are rendered on the caller's thread, answers are read on the
// client's.
class LlmWriter final : public KernelWriter {
 public:
  // `metrics` may be null. Both pointers must outlive this object and its calls, which end with the
  // client's shutdown.
  LlmWriter(LlmWriterOptions options, llm::ChatClient* client, WriterMetrics* metrics);
  ~LlmWriter() override;

  void Write(GenerationQuery query, WriteDone done) override;
  void Advise(GenerationQuery query, AdviseDone done) override;

 private:
  class Core;
  // Shared with calls, which may end after this object is destroyed.
  const std::shared_ptr<Core> core_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_LLM_WRITER_H_
