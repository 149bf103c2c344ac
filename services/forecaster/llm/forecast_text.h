#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_FORECAST_TEXT_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_FORECAST_TEXT_H_

#include <optional>
#include <string>
#include <vector>

#include "common/prompt/prompt_text.h"
#include "services/forecaster/core/backend.h"

namespace kernelcast::forecaster {

// The parts of a prompt that forecasts alone have; the same rules as for common/prompt.

// What the candidate is compared with.
std::string BaselineText(const ForecastInput& input);

// One candidate that was measured.
struct FeedbackEntry {
  std::string candidate_id;
  std::string origin;
  std::vector<Tunable> tunables;
  std::vector<std::string> flags;
  // Speedup over the reference, nothing for a failure.
  std::optional<Ratio> speedup;
  std::string failure;  // "wrong_result"
};

// A message in words where there are none.
std::string FeedbackText(const std::vector<FeedbackEntry>& entries);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_FORECAST_TEXT_H_
