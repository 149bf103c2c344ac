#ifndef KERNELCAST_SERVICES_FORECASTER_LLM_FORECAST_SAMPLES_H_
#define KERNELCAST_SERVICES_FORECASTER_LLM_FORECAST_SAMPLES_H_

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "common/domain/bins.h"
#include "services/forecaster/core/answer_parser.h"
#include "services/forecaster/core/backend.h"

namespace kernelcast::forecaster {

inline constexpr std::string_view kLlmBackendName = "llm";

// The result of one of the requests that a question consists of: the answer, readable or not, or
// the failure.
struct ForecastSample {
  std::optional<ParsedAnswer> answer;
  std::string excerpt;  // of an unreadable answer
  Abstention failure;
};

// The common part of the samples of a question.
struct SampledQuestion {
  const BinScheme& bin_scheme;
  const AnchorKernel* anchor;  // null: the candidate is compared with the reference
  std::string model;
  std::string prompt_version;
  std::string backend_version;
};

struct PooledSamples {
  ForecastResult result;
  bool complete = false;          // all samples were readable
  std::set<Repair> repairs = {};  // of the readable samples
};

// Pools the forecasts with equal weights. The model has deferred if it declined at least as often
// as it forecast. There must be a sample. Pure.
PooledSamples PoolSamples(const SampledQuestion& question,
                          std::span<const ForecastSample* const> samples);

// An abstention of this backend.
Abstention Abstain(Abstention::Cause cause, std::string_view reason);

// The reason of a candidate that is not asked about again.
inline constexpr std::string_view kNotAskedAgain = "it is not asked again";

// The model's outcome if there is no forecast. For an unreadable answer the abstention has it.
ModelAnswer AnswerOf(const Abstention& abstention);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_LLM_FORECAST_SAMPLES_H_
