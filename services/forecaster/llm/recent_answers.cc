#include "services/forecaster/llm/recent_answers.h"

#include <variant>

#include "absl/strings/str_cat.h"

namespace kernelcast::forecaster {

std::string RecentAnswers::QuestionOf(const ForecastInput& input) {
  return absl::StrCat(input.candidate.candidate_id, " ", input.baseline_candidate_id, " ",
                      std::string(input.bin_scheme->id()), " ", input.device_model);
}

void RecentAnswers::Remember(const std::string& question, const ForecastResult& result) {
  if (const auto* abstention = std::get_if<Abstention>(&result);
      abstention != nullptr && abstention->cause != Abstention::Cause::kModelDeferred) {
    return;
  }
  const auto [answer, added] = answers_.insert_or_assign(question, result);
  // The rationale is the largest part, and nobody reads it again.
  if (auto* forecast = std::get_if<kernelcast::Forecast>(&answer->second)) {
    forecast->rationale = std::string();
  }
  if (!added) return;
  order_.push_back(answer->first);
  if (order_.size() > kRemembered) {
    answers_.erase(order_.front());
    order_.pop_front();
  }
}

const ForecastResult* RecentAnswers::Find(const std::string& question) const {
  const auto found = answers_.find(question);
  return found == answers_.end() ? nullptr : &found->second;
}

}  // namespace kernelcast::forecaster
