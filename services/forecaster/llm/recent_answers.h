#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_RECENT_ANSWERS_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_RECENT_ANSWERS_H_

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>

#include "services/forecaster/core/backend.h"

namespace kernelcast::forecaster {

// The last answer to each of the latest questions, without rationales. Not thread-safe.
class RecentAnswers {
 public:
  static constexpr size_t kRemembered = 4096;

  // Which answers are repeated: those about the same candidate, baseline, bins and device model.
  // The anchor may differ.
  static std::string QuestionOf(const ForecastInput& input);

  // Abstentions count only if the model itself declined.
  void Remember(const std::string& question, const ForecastResult& result);
  // Null if there is none.
  const ForecastResult* Find(const std::string& question) const;

 private:
  std::unordered_map<std::string, ForecastResult> answers_;
  std::deque<std::string> order_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_RECENT_ANSWERS_H_
