#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_ANSWER_PARSER_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_ANSWER_PARSER_H_

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/lenient_json.h"
#include "common/domain/bins.h"
#include "common/domain/forecast.h"

namespace kernelcast::forecaster {

// The two tools offered to a model. It must call exactly one.
inline constexpr std::string_view kSubmitToolName = "submit_kernel_runtime_estimate";
inline constexpr std::string_view kDeferToolName = "defer_to_real_evaluator";

enum class ParseStatus {
  kOk,
  // The probabilities did not sum to 1 and were scaled.
  kRenormalized,
  kUnparsable,
  // The model declined to forecast.
  kDeferred,
};

// Why an answer is unparsable.
enum class AnswerFault {
  kNone,
  // Only white space.
  kEmpty,
  // No JSON object, or not exactly one where exactly one is required.
  kNotJson,
  kTooLong,
  // Text without a tool call or an answer.
  kNoTool,
  kWrongTool,
  // Both tools, or several calls of one with different arguments.
  kBothTools,
  // A field is missing, unknown, repeated or of the wrong type.
  kBadField,
  // A probability is negative, above 1 or not a number.
  kBadProbability,
  // The probabilities sum to less than kLowestSum or more than kHighestSum.
  kBadSum,
  // The answer reached the limit on its tokens.
  kCutOff,
  // The model refused to answer. To decline with the deferral tool is no refusal.
  kRefused,
  // The endpoint's content filter stopped the answer.
  kContentFilter,
};

inline constexpr AnswerFault kAnswerFaults[] = {
    AnswerFault::kEmpty,    AnswerFault::kNotJson,        AnswerFault::kTooLong,
    AnswerFault::kNoTool,   AnswerFault::kWrongTool,      AnswerFault::kBothTools,
    AnswerFault::kBadField, AnswerFault::kBadProbability, AnswerFault::kBadSum,
    AnswerFault::kCutOff,   AnswerFault::kRefused,        AnswerFault::kContentFilter,
};

std::string_view Name(AnswerFault fault);  // "both_tools"

// Tolerance within which a sum of probabilities counts as exact, and the limits beyond which it is
// rejected.
inline constexpr double kExactSumTolerance = 1e-3;
inline constexpr double kLowestSum = 0.5;
inline constexpr double kHighestSum = 1.5;
inline constexpr size_t kMaxAnswerBytes = 64 << 10;
inline constexpr size_t kMaxRationaleBytes = 8 << 10;

struct ParsedAnswer {
  ParseStatus status = ParseStatus::kUnparsable;
  // Set if the answer is unparsable.
  AnswerFault fault = AnswerFault::kNone;
  std::string error;
  // For kOk and kRenormalized: scheme, probabilities, predicted bin, raw sum, mismatch, rationale,
  // mean and deviation. For kDeferred only the rationale, which is the model's reason.
  Forecast forecast;
  // The answer contained "p_failure", which is then the forecast's failure probability.
  bool has_failure_probability = false;
  // Faults that ParseReply overlooked in a readable answer.
  std::set<Repair> repairs;
};

// Strict parser, for training rewards. Parses the arguments of one tool call: a single JSON object
// with a probability "p_NAME" for each bin of the scheme, an integer "predicted_bin" and,
// optionally, a string "reasoning" and a probability "p_failure"; or, for a deferral, an object
// with only the string "reason". Missing or additional content, repeated keys, a probability
// outside [0, 1] or a sum outside [kLowestSum, kHighestSum] make it unparsable.
ParsedAnswer ParseAnswer(const BinScheme& scheme, std::string_view answer);

// A model's reply, assembled from its stream.
struct ModelReply {
  struct ToolCall {
    std::string name;
    std::string arguments;
  };
  // Why the model stopped.
  enum class End { kByItself, kAtLimit, kFiltered };
  std::vector<ToolCall> tool_calls;
  std::string content;
  // Text of the reasoning channel. Used as the rationale if the answer has none. It is the answer
  // if there is nothing else and it was not cut off: some servers put everything there.
  std::string reasoning;
  // The model's words if the endpoint says that it refused.
  std::string refusal;
  End end = End::kByItself;
};

// Lenient parser, for serving. Accepts whatever has only one possible meaning:
//
// - The answer is taken from the tool call, otherwise from the content, otherwise from the
//   reasoning: the last object with the keys of an answer, fenced or not, also as {"name": ...,
//   "arguments": {...}}. A text may be encoded twice, as JSON in a JSON string.
// - JSON may have the faults that Repair names. A probability may be a percentage, with the sign,
//   or without it if all of them are and they sum to about 100.
// - Exactly one tool must be called, with or without a namespace in front of its name. Identical
//   repeated calls count once.
// - A call of the deferral tool defers, regardless of its arguments. An object with only a
//   "reason", or one with "defer": true, also defers.
// - Missing bins are zero if at least one is given. Numbers may be numeric strings. Unknown keys
//   are ignored. "predicted_bin" may be missing, a string or the name of a bin.
// - Bins that sum to 1 only together with "p_failure" are probabilities of being correct and in the
//   bin.
//
// An answer without a forecast that was cut off, refused or filtered has that fault.
//
// The sum is checked and scaled as in ParseAnswer, and the raw sum is kept. A predicted bin that is
// not the most probable one is flagged and replaced. Time is linear in the size of the reply; each
// text is limited to kMaxAnswerBytes. The forecast is valid (ValidateForecast).
ParsedAnswer ParseReply(const BinScheme& scheme, const ModelReply& reply);

// Sets predicted bin, mean and deviation from the probabilities, with the probability of each bin
// at its Log2Midpoint.
void SummarizeBins(const BinScheme& scheme, Forecast& forecast);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_ANSWER_PARSER_H_
