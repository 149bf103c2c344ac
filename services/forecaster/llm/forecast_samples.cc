#include "services/forecaster/llm/forecast_samples.h"

#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "services/forecaster/core/anchoring.h"
#include "services/forecaster/core/forecast_pool.h"

namespace kernelcast::forecaster {
namespace {

using Cause = Abstention::Cause;

struct Readings {
  std::vector<WeightedForecast> forecasts;
  const ParsedAnswer* deferral = nullptr;
  size_t deferrals = 0;
  const ForecastSample* unreadable = nullptr;
  const Abstention* failure = nullptr;
};

Readings Read(std::span<const ForecastSample* const> samples) {
  Readings read;
  for (const ForecastSample* const sample : samples) {
    if (!sample->answer.has_value()) {
      read.failure = &sample->failure;
    } else if (sample->answer->status == ParseStatus::kUnparsable) {
      read.unreadable = sample;
    } else if (sample->answer->status == ParseStatus::kDeferred) {
      if (read.deferral == nullptr) read.deferral = &*sample->answer;
      ++read.deferrals;
    } else {
      read.forecasts.push_back({&sample->answer->forecast, 1});
    }
  }
  return read;
}

ForecastResult ResultOf(const SampledQuestion& question, const Readings& read) {
  if (read.deferral != nullptr && read.deferrals >= read.forecasts.size()) {
    return Abstain(Cause::kModelDeferred, read.deferral->forecast.rationale);
  }
  if (!read.forecasts.empty()) {
    absl::StatusOr<kernelcast::Forecast> pooled = LinearPool(read.forecasts);
    if (!pooled.ok()) return Abstain(Cause::kUnparsable, std::string(pooled.status().message()));
    if (const AnchorKernel* anchor = question.anchor) {
      RelativeToReference(question.bin_scheme,
                          {anchor->candidate.candidate_id, anchor->speedup.value}, *pooled);
    }
    pooled->backend = absl::StrCat(std::string(kLlmBackendName), ":", question.model);
    pooled->backend_version = question.backend_version;
    pooled->calibrator_version = "none";
    pooled->prompt_version = question.prompt_version;
    pooled->basis = ForecastBasis::kModel;
    return *std::move(pooled);
  }
  if (read.unreadable != nullptr) {
    const ParsedAnswer& answer = *read.unreadable->answer;
    const std::string fault(Name(answer.fault));
    Abstention abstention = Abstain(Cause::kUnparsable, absl::StrCat(fault, ": ", answer.error));
    abstention.model =
        ModelAnswer{ModelOutcome::kUnreadable, fault,
                    read.unreadable->excerpt.empty() ? answer.error : read.unreadable->excerpt};
    return abstention;
  }
  return *read.failure;
}

}  // namespace

PooledSamples PoolSamples(const SampledQuestion& question,
                          std::span<const ForecastSample* const> samples) {
  const Readings read = Read(samples);
  PooledSamples pooled{ResultOf(question, read),
                       read.forecasts.size() + read.deferrals == samples.size()};
  for (const ForecastSample* const sample : samples) {
    if (sample->answer.has_value()) {
      pooled.repairs.insert(sample->answer->repairs.begin(), sample->answer->repairs.end());
    }
  }
  return pooled;
}

Abstention Abstain(Cause cause, std::string_view reason) {
  return Abstention{cause, std::string(kLlmBackendName), std::string(reason)};
}

ModelAnswer AnswerOf(const Abstention& abstention) {
  ModelAnswer answer;
  answer.detail = std::string(TruncateUtf8(abstention.reason, kMaxModelDetailBytes));
  switch (abstention.cause) {
    case Cause::kModelDeferred: answer.outcome = ModelOutcome::kDeclined; break;
    case Cause::kUnparsable: answer.outcome = ModelOutcome::kUnreadable; break;
    case Cause::kEndpointUnavailable: answer.outcome = ModelOutcome::kUnanswered; break;
    case Cause::kBudget: answer.outcome = ModelOutcome::kBudget; break;
    case Cause::kNotCovered:
      answer.outcome =
          abstention.reason == kNotAskedAgain ? ModelOutcome::kNotAsked : ModelOutcome::kUnanswered;
      break;
  }
  return answer;
}

}  // namespace kernelcast::forecaster
