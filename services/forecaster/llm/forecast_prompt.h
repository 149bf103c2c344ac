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

// A prompt as three files: prompt.json with "version", "answer" (the form, "extended" or "paper")
// and "rungs" (names, in the order in which they are tried); system.txt; user.txt.
//
// The system text may use bin_table, answer_schema, answer_example, submit_tool and defer_tool,
// none of which depends on the question; the user text hardware, task, reference, baseline,
// feedback, facts, simulation and candidate. The candidate is in it once, and last, so that
// questions about one problem have as long a prefix in common as can be.
//
// Rendering is the same bytes for the same input. Immutable; thread-safe.
class ForecastPrompt {
 public:
  // Compiled in. NOT_FOUND, listing the known versions.
  [[nodiscard]] static absl::StatusOr<ForecastPrompt> Builtin(std::string_view version);
  static std::vector<std::string> BuiltinVersions();
  // From a folder. NOT_FOUND: a file is missing. INVALID_ARGUMENT: "FILE: line 3: what is wrong".
  [[nodiscard]] static absl::StatusOr<ForecastPrompt> Load(const std::string& directory);
  // From the three texts; `where` is put before the names of files in messages.
  [[nodiscard]] static absl::StatusOr<ForecastPrompt> Parse(const std::string& where,
                                                            std::string_view description,
                                                            std::string_view system,
                                                            std::string_view user);

  // "speedup-bins/1@0123abcd": the version, and the first digits of the hash.
  const std::string& version() const { return version_; }
  // 32 hex digits over the three texts, the generated schemas, and the version of the rendering.
  const std::string& hash() const { return hash_; }
  AnswerForm form() const { return form_; }
  const std::vector<Rung>& rungs() const { return rungs_; }
  // For ForecasterDescription.
  PromptDescription Describe() const;

  // Where the prompt is longer than `max_bytes` it is rendered without feedback.
  // RESOURCE_EXHAUSTED: it is too long even then.
  [[nodiscard]] absl::StatusOr<RenderedPrompt> Render(const ForecastInput& input,
                                                      const std::vector<FeedbackEntry>& feedback,
                                                      size_t max_bytes) const;

 private:
  ForecastPrompt() = default;
  static absl::StatusOr<ForecastPrompt> Parse(const std::string& where, const PromptFiles& files);

  std::string version_;
  std::string hash_;
  AnswerForm form_ = AnswerForm::kExtended;
  std::vector<Rung> rungs_;
  PromptTemplate system_;
  PromptTemplate user_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_FORECAST_PROMPT_H_
