#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_FORECAST_TEXT_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_FORECAST_TEXT_H_

#include <optional>
#include <string>
#include <vector>

#include "common/prompt/prompt_text.h"
#include "services/forecaster/core/backend.h"

namespace kernelcast::forecaster {

// Parts of a prompt that only forecasts have. Same rules as in common/prompt.

// The kernel that the candidate is compared with.
std::string BaselineText(const ForecastInput& input);
// For a question with an anchor: its speed, and its source if the prompt does not contain it
// elsewhere.
std::string AnchorText(const AnchorKernel& anchor, bool with_source);

// A measured candidate.
struct FeedbackEntry {
  std::string candidate_id;
  std::string origin;
  std::vector<Tunable> tunables;
  std::vector<std::string> flags;
  // Speedup over the reference. Empty for a failure.
  std::optional<Ratio> speedup;
  std::string failure;  // "wrong_result"
};

// A sentence if there are no entries.
std::string FeedbackText(const std::vector<FeedbackEntry>& entries);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_FORECAST_TEXT_H_
