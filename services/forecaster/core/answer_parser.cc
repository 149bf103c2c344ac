#include "services/forecaster/core/answer_parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"
#include "common/domain/text.h"
#include "nlohmann/json.hpp"

namespace kernelcast::forecaster {
namespace {

using nlohmann::json;

// Maximum number of opening braces, from the last one, that are tried as the start of the answer.
constexpr int kMaxStarts = 64;
// Deeper than any valid answer. The library destroys values recursively.
constexpr int kMaxDepth = 32;
// Maximum distance from 1 at which the sum of bins and failure counts as one distribution.
constexpr double kJointSumTolerance = 0.02;
// Maximum distance from 100 at which a sum of numbers shows that they are percentages.
constexpr double kPercentTolerance = 10;
constexpr size_t kMaxRefusalBytes = 300;
// How often a JSON text may be inside a JSON string.
constexpr int kMaxEncodings = 3;

ParsedAnswer Unparsable(AnswerFault fault, std::string error) {
  ParsedAnswer answer;
  answer.fault = fault;
  answer.error = std::move(error);
  return answer;
}

ParsedAnswer Deferral(std::string_view reason) {
  ParsedAnswer answer;
  answer.status = ParseStatus::kDeferred;
  answer.forecast.rationale = std::string(
      TruncateUtf8(SanitizeUtf8(TruncateUtf8(reason, kMaxRationaleBytes)), kMaxRationaleBytes));
  return answer;
}

std::string ProbabilityKey(const BinScheme& scheme, int bin) { return "p_" + scheme.name(bin); }

bool IsBinKey(const BinScheme& scheme, std::string_view key) {
  for (int bin = 1; bin <= scheme.size(); ++bin) {
    if (key == ProbabilityKey(scheme, bin)) return true;
  }
  return false;
}

// Common last step of both parsers. Each probability must be in [0, 1]. `named` is the bin that the
// model named, or 0.
ParsedAnswer Finish(const BinScheme& scheme, std::vector<double> probabilities, int named,
                    std::optional<double> failure, bool may_be_joint, std::string rationale) {
  double sum = 0;
  for (const double p : probabilities) sum += p;
  // The sum of the probabilities that should add up to 1.
  double whole = sum;
  if (may_be_joint && failure.has_value() && sum > 0 &&
      std::abs(sum + *failure - 1) < std::min(std::abs(sum - 1), kJointSumTolerance)) {
    whole = sum + *failure;
  }
  if (!(whole >= kLowestSum && whole <= kHighestSum)) {
    return Unparsable(AnswerFault::kBadSum, absl::StrCat("the probabilities sum to ", whole));
  }
  ParsedAnswer result;
  Forecast& forecast = result.forecast;
  forecast.bin_scheme_id = scheme.id();
  forecast.bin_probabilities = std::move(probabilities);
  for (double& p : forecast.bin_probabilities) p /= sum;
  forecast.raw_probability_sum = whole;
  SummarizeBins(scheme, forecast);
  forecast.argmax_mismatch = named != 0 && forecast.predicted_bin != named;
  if (failure.has_value()) {
    forecast.failure_probability = *failure;
    result.has_failure_probability = true;
  }
  forecast.rationale = std::move(rationale);
  result.status =
      std::abs(whole - 1) <= kExactSumTolerance ? ParseStatus::kOk : ParseStatus::kRenormalized;
  return result;
}

// The number that a text is. NaN and infinities are rejected.
std::optional<double> NumberIn(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

// A number, or a string that is exactly a number.
std::optional<double> NumberOf(const json& value) {
  if (value.is_string()) return NumberIn(Trim(value.get_ref<const std::string&>()));
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

// The same, or a percentage such as "13%".
std::optional<double> FractionOf(const json& value, std::set<Repair>& repairs) {
  if (value.is_string()) {
    std::string_view text = Trim(value.get_ref<const std::string&>());
    if (text.ends_with('%')) {
      text.remove_suffix(1);
      const std::optional<double> percent = NumberIn(Trim(text));
      if (!percent) return std::nullopt;
      repairs.insert(Repair::kPercent);
      return *percent / 100;
    }
  }
  return NumberOf(value);
}

// The bin that the model named: 0 if it named none, -1 if there is no such bin.
int NamedBin(const BinScheme& scheme, const json& object) {
  const auto found = object.find("predicted_bin");
  if (found == object.end() || found->is_null()) return 0;
  if (const std::optional<double> number = NumberOf(*found)) {
    return *number >= 1 && *number <= scheme.size() && *number == std::floor(*number)
               ? static_cast<int>(*number)
               : -1;
  }
  if (found->is_string()) {
    const std::string_view text = Trim(found->get_ref<const std::string&>());
    for (int bin = 1; bin <= scheme.size(); ++bin) {
      if (text == scheme.name(bin)) return bin;
    }
  }
  return -1;
}

std::string TextOf(const json& object, const char* key) {
  return std::string(TruncateUtf8(StringAt(object, key), kMaxRationaleBytes));
}

bool SaysDefer(const json& object) {
  const auto found = object.find("defer");
  if (found == object.end()) return false;
  return (found->is_boolean() && found->get<bool>()) ||
         (found->is_string() && found->get_ref<const std::string&>() == "true");
}

bool IsLoneReason(const json& object) { return object.size() == 1 && object.contains("reason"); }

bool HasAnswerKeys(const BinScheme& scheme, const json& object) {
  if (!object.is_object()) return false;
  for (const auto& [key, value] : object.items()) {
    if (IsBinKey(scheme, key)) return true;
  }
  return SaysDefer(object) || IsLoneReason(object);
}

// The sum that the probabilities are meant to have: 100 if they are percentages without their sign,
// otherwise 1.
double WholeOf(const BinScheme& scheme, const json& object) {
  double sum = 0;
  for (int bin = 1; bin <= scheme.size(); ++bin) {
    const auto found = object.find(ProbabilityKey(scheme, bin));
    if (found == object.end() || found->is_null()) continue;
    const std::optional<double> number = NumberOf(*found);
    if (!number.has_value() || *number < 0) return 1;
    sum += *number;
  }
  if (std::abs(sum - 100) > kPercentTolerance) return 1;
  // 0.5 may be a fraction or half a percent.
  const auto failure = object.find("p_failure");
  if (failure == object.end()) return 100;
  const std::optional<double> number = NumberOf(*failure);
  return number.has_value() && (*number == 0 || *number > 1) ? 100 : 1;
}

// Parses an object that is an answer.
ParsedAnswer ParseObject(const BinScheme& scheme, const json& object) {
  if (SaysDefer(object)) {
    std::string reason = TextOf(object, "reason");
    if (reason.empty()) reason = TextOf(object, "reasoning");
    return Deferral(reason);
  }
  if (IsLoneReason(object)) return Deferral(TextOf(object, "reason"));

  std::vector<double> probabilities(scheme.size(), 0.0);
  bool any = false;
  std::set<Repair> repairs;
  const double whole = WholeOf(scheme, object);
  if (whole != 1) repairs.insert(Repair::kPercent);
  const auto probability = [&](const json& value) -> std::optional<double> {
    const std::optional<double> p = FractionOf(value, repairs);
    return p.has_value() && *p >= 0 && *p <= whole ? std::optional(*p / whole) : std::nullopt;
  };
  for (int bin = 1; bin <= scheme.size(); ++bin) {
    const std::string key = ProbabilityKey(scheme, bin);
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) continue;
    const std::optional<double> p = probability(*found);
    if (!p.has_value()) {
      return Unparsable(AnswerFault::kBadProbability,
                        absl::StrCat("'", key, "' is not a number in [0, 1]"));
    }
    probabilities[bin - 1] = *p;
    any = true;
  }
  if (!any) return Unparsable(AnswerFault::kBadField, "no probability is given");
  std::optional<double> failure;
  if (const auto found = object.find("p_failure"); found != object.end() && !found->is_null()) {
    failure = probability(*found);
    if (!failure.has_value()) {
      return Unparsable(AnswerFault::kBadProbability, "'p_failure' is not a number in [0, 1]");
    }
  }
  ParsedAnswer answer = Finish(scheme, std::move(probabilities), NamedBin(scheme, object), failure,
                               /*may_be_joint=*/true, TextOf(object, "reasoning"));
  answer.repairs = std::move(repairs);
  return answer;
}

// Discarded if the text is not JSON or is nested too deeply.
json ParseJson(std::string_view text) {
  const auto bound_depth = [](int depth, json::parse_event_t, json&) { return depth < kMaxDepth; };
  return json::parse(text.begin(), text.end(), bound_depth, /*allow_exceptions=*/false);
}

// End of the object that begins at `begin`: after its closing brace, skipping strings. npos if it
// is not closed.
size_t ObjectEnd(std::string_view text, size_t begin) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{') {
      if (++depth > kMaxDepth) return std::string_view::npos;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// The object that begins at `begin`, and its end. Null if there is none.
json ObjectAt(std::string_view text, size_t begin, size_t& end, std::set<Repair>& repairs) {
  end = ObjectEnd(text, begin);
  if (end != std::string_view::npos) {
    json object = ParseJson(text.substr(begin, end - begin));
    if (object.is_object()) return object;
  }
  std::optional<MendedJson> mended = MendJsonValue(text.substr(begin));
  if (!mended) return nullptr;
  json object = ParseJson(mended->strict);
  if (!object.is_object()) return nullptr;
  end = begin + mended->end;
  repairs = std::move(mended->repairs);
  return object;
}

// The text inside a JSON string that is the whole text. Empty: it is no such string.
std::optional<std::string> Decoded(std::string_view text) {
  text = Trim(text);
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::nullopt;
  const json value = ParseJson(text);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

// The name of a tool without a namespace, such as "functions.".
std::string_view BareName(std::string_view tool) {
  return tool.substr(std::min(tool.rfind('.') + 1, tool.size()));
}

// The tool call or answer in an object; unwraps {"name": ..., "arguments": {...}}. Null if it is
// neither. Sets `tool` if a tool is named.
const json* AnswerIn(const BinScheme& scheme, json& object, std::string& tool,
                     std::set<Repair>& repairs) {
  if (!object.is_object()) return nullptr;
  if (HasAnswerKeys(scheme, object)) return &object;
  const auto name = object.find("name");
  if (name == object.end() || !name->is_string()) return nullptr;
  for (const char* key : {"arguments", "parameters", "input"}) {
    const auto arguments = object.find(key);
    if (arguments == object.end()) continue;
    if (arguments->is_string()) {
      std::set<Repair> inner;
      size_t end = 0;
      const std::string text(Trim(arguments->get_ref<const std::string&>()));
      json decoded = text.starts_with('{') ? ObjectAt(text, 0, end, inner) : json();
      if (!decoded.is_object()) continue;
      *arguments = std::move(decoded);
      repairs.merge(inner);
      repairs.insert(Repair::kEncodedTwice);
    }
    if (!arguments->is_object()) continue;
    tool = name->get<std::string>();
    return &*arguments;
  }
  return nullptr;
}

// The last answer in a text, or a fault.
ParsedAnswer ParseText(const BinScheme& scheme, std::string_view text, int encodings = 0) {
  text = Trim(text);
  if (text.empty()) return Unparsable(AnswerFault::kEmpty, "the answer is empty");
  if (text.size() > kMaxAnswerBytes) {
    return Unparsable(AnswerFault::kTooLong,
                      absl::StrCat("longer than ", kMaxAnswerBytes, " bytes"));
  }
  if (encodings < kMaxEncodings) {
    if (const std::optional<std::string> decoded = Decoded(text)) {
      ParsedAnswer answer = ParseText(scheme, *decoded, encodings + 1);
      answer.repairs.insert(Repair::kEncodedTwice);
      return answer;
    }
  }
  bool any_object = false;
  // Tries objects from the last brace on, so inner objects come first. An object with only a
  // "reason" declines, unless the object around it is an answer.
  std::optional<ParsedAnswer> declined;
  size_t declined_at = 0;
  size_t begin = text.rfind('{');
  for (int tries = 0; begin != std::string_view::npos && tries < kMaxStarts; ++tries) {
    size_t end = 0;
    std::set<Repair> repairs;
    json object = ObjectAt(text, begin, end, repairs);
    if (object.is_object()) {
      if (declined.has_value() && end <= declined_at) break;
      any_object = true;
      std::string tool;
      if (const json* answer = AnswerIn(scheme, object, tool, repairs)) {
        const auto parsed = [&](ParsedAnswer result) {
          result.repairs.merge(repairs);
          return result;
        };
        if (BareName(tool) == kDeferToolName) return parsed(Deferral(TextOf(*answer, "reason")));
        if (!IsLoneReason(*answer)) return parsed(ParseObject(scheme, *answer));
        if (!declined.has_value()) {
          declined = parsed(ParseObject(scheme, *answer));
          declined_at = begin;
        }
      }
    }
    if (begin == 0) break;
    begin = text.rfind('{', begin - 1);
  }
  if (declined.has_value()) return *std::move(declined);
  if (any_object) {
    return Unparsable(AnswerFault::kBadField, "no object in the text has an answer's keys");
  }
  return Unparsable(text.front() == '{' ? AnswerFault::kNotJson : AnswerFault::kNoTool,
                    "neither a tool was called nor is there an answer in the text");
}

ParsedAnswer ParseToolCalls(const BinScheme& scheme, std::span<const ModelReply::ToolCall> calls) {
  // Servers that begin a call anew at the end leave one without arguments.
  const auto first = std::ranges::find_if(
      calls, [](const ModelReply::ToolCall& call) { return !IsBlank(call.arguments); });
  const ModelReply::ToolCall& call = first == calls.end() ? calls.front() : *first;
  for (const ModelReply::ToolCall& other : calls) {
    if (other.name != call.name ||
        (other.arguments != call.arguments && !IsBlank(other.arguments))) {
      return Unparsable(AnswerFault::kBothTools,
                        absl::StrCat(calls.size(), " different calls of tools"));
    }
  }
  if (BareName(call.name) == kDeferToolName) {
    const std::string_view written = std::string_view(call.arguments).substr(0, kMaxAnswerBytes);
    const std::string arguments = Decoded(written).value_or(std::string(written));
    const json object = ParseJson(arguments);
    const std::string reason = object.is_object() ? TextOf(object, "reason") : "";
    return Deferral(reason.empty() ? arguments : reason);
  }
  if (BareName(call.name) != kSubmitToolName) {
    return Unparsable(AnswerFault::kWrongTool,
                      absl::StrCat("the tool ", Quoted(call.name), " does not exist"));
  }
  return ParseText(scheme, call.arguments);
}

}  // namespace

std::string_view Name(AnswerFault fault) {
  switch (fault) {
    case AnswerFault::kNone: return "none";
    case AnswerFault::kEmpty: return "empty";
    case AnswerFault::kNotJson: return "not_json";
    case AnswerFault::kTooLong: return "too_long";
    case AnswerFault::kNoTool: return "no_tool";
    case AnswerFault::kWrongTool: return "wrong_tool";
    case AnswerFault::kBothTools: return "both_tools";
    case AnswerFault::kBadField: return "bad_field";
    case AnswerFault::kBadProbability: return "bad_probability";
    case AnswerFault::kBadSum: return "bad_sum";
    case AnswerFault::kCutOff: return "cut_off";
    case AnswerFault::kRefused: return "refused";
    case AnswerFault::kContentFilter: return "content_filter";
  }
  return "none";
}

void SummarizeBins(const BinScheme& scheme, Forecast& forecast) {
  forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  double mean = 0;
  double square = 0;
  for (int bin = 1; bin <= scheme.size(); ++bin) {
    const double p = forecast.bin_probabilities[bin - 1];
    const double middle = scheme.Log2Midpoint(bin);
    mean += p * middle;
    square += p * middle * middle;
  }
  forecast.expected_log2_speedup = mean;
  forecast.stddev_log2_speedup = std::sqrt(std::max(0.0, square - mean * mean));
}

ParsedAnswer ParseAnswer(const BinScheme& scheme, std::string_view answer) {
  if (answer.size() > kMaxAnswerBytes) {
    return Unparsable(AnswerFault::kTooLong,
                      absl::StrCat("longer than ", kMaxAnswerBytes, " bytes"));
  }
  if (IsBlank(answer)) return Unparsable(AnswerFault::kEmpty, "not JSON");
  // The library keeps the last of two equal keys. Here repeated keys are an error.
  std::set<std::string> keys;
  std::string repeated;
  const auto watch_keys = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1) {
      const std::string& key = value.get_ref<const std::string&>();
      if (!keys.insert(key).second) repeated = key;
    }
    return depth < kMaxDepth;
  };
  const json object = json::parse(answer.begin(), answer.end(), watch_keys,
                                  /*allow_exceptions=*/false);
  const auto bad_field = [](std::string error) {
    return Unparsable(AnswerFault::kBadField, std::move(error));
  };
  if (object.is_discarded()) return Unparsable(AnswerFault::kNotJson, "not JSON");
  if (!object.is_object()) return Unparsable(AnswerFault::kNotJson, "not an object");
  if (!repeated.empty()) return bad_field(absl::StrCat("'", repeated, "' is given twice"));

  if (IsLoneReason(object)) {
    if (!object["reason"].is_string()) return bad_field("'reason' is not a string");
    return Deferral(object["reason"].get_ref<const std::string&>());
  }

  size_t expected_keys = 0;
  std::vector<double> probabilities;
  ParsedAnswer fault;
  const auto read = [&](const std::string& key, const json& value) -> std::optional<double> {
    ++expected_keys;
    if (!value.is_number()) {
      fault = bad_field(absl::StrCat("'", key, "' is not a number"));
      return std::nullopt;
    }
    const double p = value.get<double>();
    if (p >= 0 && p <= 1) return p;
    fault = Unparsable(AnswerFault::kBadProbability, absl::StrCat("'", key, "' is not in [0, 1]"));
    return std::nullopt;
  };
  for (int bin = 1; bin <= scheme.size(); ++bin) {
    const std::string key = ProbabilityKey(scheme, bin);
    const auto found = object.find(key);
    if (found == object.end()) return bad_field(absl::StrCat("'", key, "' is missing"));
    const std::optional<double> p = read(key, *found);
    if (!p.has_value()) return fault;
    probabilities.push_back(*p);
  }
  std::optional<double> failure;
  if (const auto found = object.find("p_failure"); found != object.end()) {
    failure = read("p_failure", *found);
    if (!failure.has_value()) return fault;
  }
  const auto named_bin = object.find("predicted_bin");
  if (named_bin == object.end()) return bad_field("'predicted_bin' is missing");
  if (!named_bin->is_number_integer()) return bad_field("'predicted_bin' is not an integer");
  const int64_t named = named_bin->get<int64_t>();
  if (named < 1 || named > scheme.size()) {
    return bad_field(absl::StrCat("'predicted_bin' is not in [1, ", scheme.size(), "]"));
  }
  ++expected_keys;
  std::string rationale;
  if (const auto reasoning = object.find("reasoning"); reasoning != object.end()) {
    if (!reasoning->is_string()) return bad_field("'reasoning' is not a string");
    rationale = reasoning->get<std::string>();
    ++expected_keys;
  }
  if (object.size() != expected_keys) {
    for (const auto& [key, value] : object.items()) {
      if (key == "predicted_bin" || key == "reasoning" || key == "p_failure" ||
          IsBinKey(scheme, key)) {
        continue;
      }
      return bad_field(absl::StrCat("'", key, "' is not a known key"));
    }
  }
  return Finish(scheme, std::move(probabilities), static_cast<int>(named), failure,
                /*may_be_joint=*/false, std::move(rationale));
}

ParsedAnswer ParseReply(const BinScheme& scheme, const ModelReply& reply) {
  ParsedAnswer answer;
  const bool cut_off = reply.end == ModelReply::End::kAtLimit;
  if (reply.tool_calls.empty() && IsBlank(reply.content) && !IsBlank(reply.reasoning) && !cut_off) {
    answer = ParseText(scheme, reply.reasoning);
    answer.repairs.insert(Repair::kInReasoning);
  } else if (reply.tool_calls.empty()) {
    answer = ParseText(scheme, reply.content);
  } else {
    answer = ParseToolCalls(scheme, reply.tool_calls);
    // If the call is unusable, an answer in the content is used, except after calls of both tools.
    if (answer.status == ParseStatus::kUnparsable && answer.fault != AnswerFault::kBothTools &&
        !IsBlank(reply.content)) {
      ParsedAnswer in_text = ParseText(scheme, reply.content);
      if (in_text.status != ParseStatus::kUnparsable) answer = std::move(in_text);
    }
  }
  if (answer.status == ParseStatus::kUnparsable) {
    answer.repairs.clear();
    if (!IsBlank(reply.refusal)) {
      return Unparsable(
          AnswerFault::kRefused,
          absl::StrCat("the model refuses to answer: ",
                       std::string(TruncateUtf8(SanitizeUtf8(reply.refusal), kMaxRefusalBytes))));
    }
    if (reply.end == ModelReply::End::kFiltered) {
      return Unparsable(AnswerFault::kContentFilter,
                        "the endpoint's content filter stopped the answer");
    }
    if (cut_off) return Unparsable(AnswerFault::kCutOff, "the answer is cut off");
    return answer;
  }
  if (answer.forecast.rationale.empty()) {
    // The end of the reasoning contains the conclusion.
    const std::string text = SanitizeUtf8(TruncateUtf8Front(reply.reasoning, kMaxRationaleBytes));
    answer.forecast.rationale = std::string(TruncateUtf8Front(text, kMaxRationaleBytes));
  }
  return answer;
}

}  // namespace kernelcast::forecaster
