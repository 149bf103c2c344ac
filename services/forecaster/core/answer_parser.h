#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_ANSWER_PARSER_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_ANSWER_PARSER_H_

#include <string>
#include <string_view>

#include "common/domain/bins.h"
#include "common/domain/forecast.h"

namespace kernelcast::forecaster {

enum class ParseStatus {
  kOk,
  // The probabilities did not sum to one and were scaled.
  kRenormalized,
  kUnparsable,
  // The model declined to forecast.
  kDeferred,
};

// How far from one the sum of the probabilities may be without being called renormalised, and at
// all.
inline constexpr double kExactSumTolerance = 1e-3;
inline constexpr double kLowestSum = 0.5;
inline constexpr double kHighestSum = 1.5;
inline constexpr size_t kMaxAnswerBytes = 64 << 10;

struct ParsedAnswer {
  ParseStatus status = ParseStatus::kUnparsable;
  // What is wrong with an answer that is unparsable.
  std::string error;
  // Set for kOk and kRenormalized: scheme, probabilities, predicted bin, raw sum, mismatch,
  // rationale, mean and deviation.
  Forecast forecast;
};

// Reads the arguments of one tool call: a JSON object and nothing else, with a probability "p_NAME"
// for each bin of the scheme, an integer "predicted_bin" and, optionally, a string "reasoning"; or,
// for a deferral, an object with the one string "reason". Anything more or less, a key given twice,
// a probability outside [0, 1] or a sum outside [kLowestSum, kHighestSum] is unparsable.
ParsedAnswer ParseAnswer(const BinScheme& scheme, std::string_view answer);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_ANSWER_PARSER_H_
