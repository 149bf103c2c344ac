#include "services/forecaster/llm/combined_comparisons.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "services/forecaster/core/anchoring.h"
#include "services/forecaster/core/forecast_pool.h"
#include "services/forecaster/llm/forecast_samples.h"

namespace kernelcast::forecaster {
namespace {

constexpr double kLeastWeight = 0.2;

// The result, charged with the tokens of the other question.
ForecastResult Charged(ForecastResult result, const std::optional<ModelAnswer>& other) {
  if (!other) return result;
  if (auto* forecast = std::get_if<kernelcast::Forecast>(&result)) {
    forecast->token_usage += other->token_usage;
    if (forecast->model) forecast->model->token_usage += other->token_usage;
  } else if (auto& abstention = std::get<Abstention>(result); abstention.model) {
    abstention.model->token_usage += other->token_usage;
  }
  return result;
}

// The answers to the two questions, until both are there.
struct Pair {
  std::mutex mutex;
  std::optional<ForecastResult> anchor;
  std::optional<ForecastResult> reference;
};

}  // namespace

double AnchorWeight(const kernelcast::Forecast& anchor, const kernelcast::Forecast& reference) {
  const double of_anchor = anchor.stddev_log2_speedup * anchor.stddev_log2_speedup;
  const double of_reference = reference.stddev_log2_speedup * reference.stddev_log2_speedup;
  const double sum = of_anchor + of_reference;
  return sum > 0 ? std::clamp(of_reference / sum, kLeastWeight, 1 - kLeastWeight) : 0.5;
}

ForecastResult CombineComparisons(ForecastResult anchor, ForecastResult reference) {
  auto* near = std::get_if<kernelcast::Forecast>(&anchor);
  auto* far = std::get_if<kernelcast::Forecast>(&reference);
  if (near == nullptr || far == nullptr) {
    const bool keeps_anchor = near != nullptr || far == nullptr;
    ForecastResult& kept = keeps_anchor ? anchor : reference;
    const auto& other = std::get<Abstention>(keeps_anchor ? reference : anchor);
    return Charged(std::move(kept), other.model);
  }
  const double weight = AnchorWeight(*near, *far);
  absl::StatusOr<kernelcast::Forecast> pooled =
      LinearPool(std::vector<WeightedForecast>{{near, weight}, {far, 1 - weight}});
  if (!pooled.ok()) return Charged(std::move(anchor), far->model);
  if (pooled->model) pooled->model->token_usage = pooled->token_usage;
  return *std::move(pooled);
}

CombinedComparisons::CombinedComparisons(Backend* inner)
    : inner_(*inner), memory_(std::make_shared<Memory>()) {}

CombinedComparisons::~CombinedComparisons() = default;

void CombinedComparisons::Forecast(ForecastInput input, const ForecastCall& call, Done done) {
  if (input.anchor == nullptr ||
      input.anchor->candidate.candidate_id == input.candidate.candidate_id) {
    return inner_.Forecast(std::move(input), call, std::move(done));
  }
  const std::string question = RecentAnswers::QuestionOf(input);
  ForecastCall both = call;
  if (call.again) {
    std::optional<ForecastResult> said;
    {
      const std::lock_guard lock(memory_->mutex);
      if (const ForecastResult* found = memory_->answers.Find(question)) said = *found;
    }
    if (!said) return inner_.Forecast(std::move(input), call, std::move(done));
    const auto* forecast = std::get_if<kernelcast::Forecast>(&*said);
    if (forecast == nullptr ||
        !IsBlindAt(*input.bin_scheme, *forecast, input.anchor->speedup.value)) {
      // Repeating an answer costs nothing.
      if (auto* repeated = std::get_if<kernelcast::Forecast>(&*said)) {
        repeated->token_usage = {};
        if (repeated->model) repeated->model->token_usage = {};
      } else if (auto& abstention = std::get<Abstention>(*said); abstention.model) {
        abstention.model->token_usage = {};
      }
      return done(*std::move(said));
    }
    if (call.remembered_only) {
      Abstention none = Abstain(Abstention::Cause::kNotCovered, kNotAskedAgain);
      none.model = AnswerOf(none);
      return done(std::move(none));
    }
    both.again = false;
  }
  auto pair = std::make_shared<Pair>();
  auto shared_done = std::make_shared<Done>(std::move(done));
  const auto settle = [pair, shared_done, question, memory = memory_](bool is_anchor,
                                                                      ForecastResult result) {
    {
      const std::lock_guard lock(pair->mutex);
      (is_anchor ? pair->anchor : pair->reference) = std::move(result);
      if (!pair->anchor || !pair->reference) return;
    }
    ForecastResult combined =
        CombineComparisons(*std::move(pair->anchor), *std::move(pair->reference));
    {
      const std::lock_guard lock(memory->mutex);
      memory->answers.Remember(question, combined);
    }
    (*shared_done)(std::move(combined));
  };
  ForecastInput with_reference = input;
  with_reference.anchor = nullptr;
  inner_.Forecast(std::move(input), both,
                  [settle](ForecastResult result) { settle(true, std::move(result)); });
  inner_.Forecast(std::move(with_reference), both,
                  [settle](ForecastResult result) { settle(false, std::move(result)); });
}

}  // namespace kernelcast::forecaster
