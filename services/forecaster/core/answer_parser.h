#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_ANSWER_PARSER_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_ANSWER_PARSER_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/bins.h"
#include "common/domain/forecast.h"

namespace kernelcast::forecaster {

// The two tools that a model is given, of which it calls exactly one.
inline constexpr std::string_view kSubmitToolName = "submit_kernel_runtime_estimate";
inline constexpr std::string_view kDeferToolName = "defer_to_real_evaluator";

enum class ParseStatus {
  kOk,
  // The probabilities did not sum to one and were scaled.
  kRenormalized,
  kUnparsable,
  // The model declined to forecast.
  kDeferred,
};

// What makes an answer unparsable.
enum class AnswerFault {
  kNone,
  // Nothing but white space.
  kEmpty,
  // No JSON object, or more or less than one where exactly one is wanted.
  kNotJson,
  kTooLong,
  // Text, but neither a tool call nor an answer in it.
  kNoTool,
  kWrongTool,
  // Both tools, or one of them several times with different arguments.
  kBothTools,
  // A field is missing, unknown, given twice or of the wrong type.
  kBadField,
  // A probability is negative, above one or no number.
  kBadProbability,
  // The probabilities sum to less than kLowestSum or more than kHighestSum.
  kBadSum,
};

inline constexpr AnswerFault kAnswerFaults[] = {
    AnswerFault::kEmpty,    AnswerFault::kNotJson,        AnswerFault::kTooLong,
    AnswerFault::kNoTool,   AnswerFault::kWrongTool,      AnswerFault::kBothTools,
    AnswerFault::kBadField, AnswerFault::kBadProbability, AnswerFault::kBadSum,
};

std::string_view Name(AnswerFault fault);  // "both_tools"

// How far from one the sum of the probabilities may be without being called renormalised, and at
// all.
inline constexpr double kExactSumTolerance = 1e-3;
inline constexpr double kLowestSum = 0.5;
inline constexpr double kHighestSum = 1.5;
inline constexpr size_t kMaxAnswerBytes = 64 << 10;
inline constexpr size_t kMaxRationaleBytes = 8 << 10;

struct ParsedAnswer {
  ParseStatus status = ParseStatus::kUnparsable;
  // What is wrong with an answer that is unparsable.
  AnswerFault fault = AnswerFault::kNone;
  std::string error;
  // Set for kOk and kRenormalized: scheme, probabilities, predicted bin, raw sum, mismatch,
  // rationale, mean and deviation. For kDeferred the rationale is the reason that was given.
  Forecast forecast;
  // The answer gave "p_failure", which is the forecast's failure probability then.
  bool has_failure_probability = false;
};

// Strict, for the rewards of training. Reads the arguments of one tool call: a JSON object and
// nothing else, with a probability "p_NAME" for each bin of the scheme, an integer "predicted_bin"
// and, optionally, a string "reasoning" and a probability "p_failure"; or, for a deferral, an
// object with the one string "reason". Anything more or less, a key given twice, a probability
// outside [0, 1] or a sum outside [kLowestSum, kHighestSum] is unparsable.
ParsedAnswer ParseAnswer(const BinScheme& scheme, std::string_view answer);

// What a model sent back, put together from its stream.
struct ModelReply {
  struct ToolCall {
    std::string name;
    std::string arguments;
  };
  std::vector<ToolCall> tool_calls;
  std::string content;
  // The reasoning channel; a rationale where the answer has none of its own, never an answer.
  std::string reasoning;
};

// Forgiving, for serving: of the same answers whatever can only mean one thing.
//  - The answer is looked for in the tool call, else in the content: the last object in it that has
//    an answer's keys, in a fence or not, also as {"name": ..., "arguments": {...}}.
//  - Exactly one tool is called. The same call repeated word for word counts once.
//  - Calling the deferral tool defers, whatever its arguments; so does an object with nothing but a
//    "reason", and one with "defer": true.
//  - Missing bins are zero where at least one is given; numbers may be strings of a number; keys
//    that are not known are ignored; "predicted_bin" may be missing, a string or a bin's name.
//  - Bins that sum to one together with "p_failure" rather than by themselves are taken for what
//    they are: probabilities of being correct and in the bin.
// The sum is bounded and scaled as in ParseAnswer, and the raw sum kept. A predicted bin that is
// not the most probable one is flagged and replaced. Linear in the reply's size, which is bounded
// by kMaxAnswerBytes for each text looked at. The forecast is valid (ValidateForecast).
ParsedAnswer ParseReply(const BinScheme& scheme, const ModelReply& reply);

// Sets predicted bin, mean and deviation from the probabilities, with each bin's mass at its
// Log2Midpoint.
void SummarizeBins(const BinScheme& scheme, Forecast& forecast);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_ANSWER_PARSER_H_
