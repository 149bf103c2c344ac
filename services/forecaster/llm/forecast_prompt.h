#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_FORECAST_PROMPT_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_FORECAST_PROMPT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/prompt/prompt_files.h"
#include "common/prompt/prompt_template.h"
#include "services/forecaster/core/backend.h"
#include "services/forecaster/llm/answer_schema.h"
#include "services/forecaster/llm/forecast_text.h"
#include "services/forecaster/llm/response_ladder.h"

namespace kernelcast::forecaster {

inline constexpr std::string_view kDefaultPromptVersion = "speedup-bins/2";

// A prompt in three files: prompt.json with "version", "answer" (the format, "extended" or
// "paper"), "rungs" (names, in the order in which they are tried) and optionally "may_defer"
// (false: the model is not offered to decline); system.txt; user.txt.
//
// The system text may use the placeholders bin_table, answer_schema, answer_example, submit_tool
// and defer_tool, which do not depend on the question. The user text may use hardware, task,
// reference, baseline, feedback, facts, simulation and candidate. The candidate occurs once, at the
// end, so that questions about the same problem share the longest possible prefix.
//
// Rendering gives the same bytes for the same input. Immutable and thread-safe.
class ForecastPrompt {
 public:
  // A prompt compiled into the binary. NOT_FOUND: unknown version; the message lists the known
  // ones.
  [[nodiscard]] static absl::StatusOr<ForecastPrompt> Builtin(std::string_view version);
  static std::vector<std::string> BuiltinVersions();
  // A prompt from a folder. NOT_FOUND: a file is missing. INVALID_ARGUMENT: "FILE: line 3: what is
  // wrong".
  [[nodiscard]] static absl::StatusOr<ForecastPrompt> Load(const std::string& directory);
  // A prompt from the three texts. `where` is prepended to file names in messages.
  [[nodiscard]] static absl::StatusOr<ForecastPrompt> Parse(const std::string& where,
                                                            std::string_view description,
                                                            std::string_view system,
                                                            std::string_view user);

  // "speedup-bins/2@0123abcd": the version and the first digits of the hash.
  const std::string& version() const { return version_; }
  // 32 hex digits over the three texts, the generated schemas and the rendering version.
  const std::string& hash() const { return hash_; }
  AnswerForm form() const { return form_; }
  bool may_defer() const { return may_defer_; }
  const std::vector<Rung>& rungs() const { return rungs_; }
  // For ForecasterDescription.
  PromptDescription Describe() const;

  // If the prompt exceeds `max_bytes`, it is rendered without feedback. RESOURCE_EXHAUSTED: still
  // too long.
  [[nodiscard]] absl::StatusOr<RenderedPrompt> Render(const ForecastInput& input,
                                                      const std::vector<FeedbackEntry>& feedback,
                                                      size_t max_bytes) const;

 private:
  ForecastPrompt() = default;
  static absl::StatusOr<ForecastPrompt> Parse(const std::string& where, const PromptFiles& files);

  std::string version_;
  std::string hash_;
  AnswerForm form_ = AnswerForm::kExtended;
  bool may_defer_ = true;
  std::vector<Rung> rungs_;
  PromptTemplate system_;
  PromptTemplate user_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_FORECAST_PROMPT_H_
