#include "common/llm/chat_accumulator.h"

#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/llm/json_text.h"
#include "common/llm/retry_policy.h"

namespace kernelcast::llm {
namespace {

using simdjson::dom::element;

constexpr size_t kMaxToolCalls = 32;
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxMessageBytes = 500;
// Larger than any event of a stream; a complete answer may be larger.
constexpr size_t kKeptBytes = 256 << 10;

// Reuses the parser, because streams arrive as thousands of small texts per second. Results are
// valid until the next text on this thread.
class Parser {
 public:
  // Empty if the text is not JSON even after MendJson.
  std::optional<element> Parse(std::string_view text) {
    if (std::optional<element> parsed = TryParse(text)) return parsed;
    return TryParse(MendJson(text));
  }

  static Parser& OfThread() {
    thread_local Parser parser;
    return parser;
  }

 private:
  std::optional<element> TryParse(std::string_view text) {
    if (text.size() <= kKeptBytes && buffer_.capacity() > kKeptBytes + simdjson::SIMDJSON_PADDING) {
      buffer_ = std::string();
      parser_ = simdjson::dom::parser();
    }
    buffer_.reserve(std::max(text.size(), kKeptBytes / 16) + simdjson::SIMDJSON_PADDING);
    buffer_.assign(text);
    element parsed;
    const simdjson::error_code error =
        parser_.parse(buffer_.data(), buffer_.size(), /*realloc_if_needed=*/false).get(parsed);
    if (error != simdjson::SUCCESS) return std::nullopt;
    return parsed;
  }

  std::string buffer_;
  simdjson::dom::parser parser_;
};

// The value at a key of an object, unless it is missing or null.
std::optional<element> Find(const element& object, std::string_view key) {
  element found;
  if (!object.is_object() || object.at_key(key).get(found) != simdjson::SUCCESS ||
      found.is_null()) {
    return std::nullopt;
  }
  return found;
}

// Empty if it is not a string.
std::string_view Text(const std::optional<element>& value) {
  std::string_view text;
  if (value.has_value() && value->get_string().get(text) != simdjson::SUCCESS) return {};
  return text;
}

std::string_view TextAt(const element& object, std::string_view key) {
  return Text(Find(object, key));
}

int64_t Count(const element& object, std::string_view key) {
  const std::optional<element> value = Find(object, key);
  double number = 0;
  if (!value.has_value() || !value->is_number() ||
      value->get_double().get(number) != simdjson::SUCCESS) {
    return 0;
  }
  return number >= 0 && number < 1e12 ? static_cast<int64_t>(number) : 0;
}

FinishReason ParseFinishReason(std::string_view name) {
  if (name == "stop" || name == "end_turn" || name == "eos") return FinishReason::kStop;
  if (name == "length" || name == "max_tokens") return FinishReason::kLength;
  if (name == "tool_calls" || name == "function_call") return FinishReason::kToolCalls;
  if (name == "content_filter") return FinishReason::kContentFilter;
  return FinishReason::kUnknown;
}

bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

bool Over(ChatAccumulator::State state) {
  return state == ChatAccumulator::State::kDone || state == ChatAccumulator::State::kCut ||
         state == ChatAccumulator::State::kFailed;
}

}  // namespace

class ChatAccumulator::Reader {
 public:
  explicit Reader(ChatAccumulator& to) : to_(to), answer_(to.answer_) {}

  void OnObject(const element& object, std::string_view message_key) {
    if (const std::optional<element> error = Find(object, "error")) {
      return OnErrorObject(object, *error);
    }
    if (TextAt(object, "object") == "error") return OnErrorObject(object, object);
    if (answer_.id.empty()) answer_.id = TextAt(object, "id").substr(0, kMaxNameBytes);
    if (answer_.model.empty()) answer_.model = TextAt(object, "model").substr(0, kMaxNameBytes);
    if (const std::optional<element> usage = Find(object, "usage")) OnUsage(*usage);

    simdjson::dom::array choices;
    const std::optional<element> list = Find(object, "choices");
    if (!list.has_value() || list->get_array().get(choices) != simdjson::SUCCESS) return;
    for (const element choice : choices) {
      if (!choice.is_object() || Count(choice, "index") != 0) continue;
      if (const std::optional<element> message = Find(choice, message_key)) OnMessage(*message);
      if (Over(to_.state_)) return;
      const std::optional<element> reason = Find(choice, "finish_reason");
      if (reason.has_value() && reason->is_string()) {
        to_.state_ = State::kFinished;
        answer_.finish_reason = ParseFinishReason(Text(reason));
      }
      return;
    }
  }

 private:
  void OnMessage(const element& message) {
    std::optional<element> reasoning = Find(message, "reasoning");
    if (!reasoning.has_value()) reasoning = Find(message, "reasoning_content");
    if (!AppendText(reasoning, answer_.reasoning, to_.reasoning_run_)) return;
    if (!AppendText(Find(message, "content"), answer_.content, to_.content_run_)) return;
    simdjson::dom::array calls;
    const std::optional<element> list = Find(message, "tool_calls");
    if (!list.has_value() || list->get_array().get(calls) != simdjson::SUCCESS) return;
    for (const element call : calls) {
      OnToolCall(call);
      if (Over(to_.state_)) return;
    }
  }

  void OnToolCall(const element& call) {
    const std::optional<element> function = Find(call, "function");
    if (!function.has_value() || !function->is_object()) return;
    const std::string_view id = TextAt(call, "id").substr(0, kMaxNameBytes);
    const std::string_view name = TextAt(*function, "name");
    const size_t at = PlaceOf(call, id, name);
    if (at == answer_.tool_calls.size()) {
      if (at >= kMaxToolCalls) {
        return to_.Fail(ErrorKind::kMalformed, "the answer has too many tool calls");
      }
      answer_.tool_calls.emplace_back();
      to_.open_calls_.push_back({IndexOf(call).value_or(-1), Run{}});
    }

    ToolCall& target = answer_.tool_calls[at];
    to_.has_token_ = true;
    if (target.id.empty()) target.id = id;
    // The name may be sent once, in every piece, or in pieces itself.
    if (target.name != name && target.name.size() + name.size() <= kMaxNameBytes &&
        (target.name.empty() || target.arguments.empty())) {
      to_.bytes_ += static_cast<int64_t>(name.size());
      target.name += name;
    }
    const std::optional<element> arguments = Find(*function, "arguments");
    if (!arguments.has_value()) return;
    if (arguments->is_string()) {
      to_.Append(target.arguments, Text(arguments), to_.open_calls_[at].run);
    } else if (arguments->is_object()) {
      to_.Append(target.arguments, simdjson::minify(*arguments), to_.open_calls_[at].run);
    }
  }

  static std::optional<int64_t> IndexOf(const element& call) {
    const std::optional<element> index = Find(call, "index");
    int64_t number = 0;
    if (!index.has_value() || index->get_int64().get(number) != simdjson::SUCCESS) {
      return std::nullopt;
    }
    return number;
  }

  // Index of the tool call that a piece belongs to, or the number of calls for a new one. Calls are
  // distinguished by index. If there is none, or all have the same, a new id and name begin a new
  // call.
  size_t PlaceOf(const element& call, std::string_view id, std::string_view name) const {
    const std::vector<OpenCall>& open = to_.open_calls_;
    const std::optional<int64_t> index = IndexOf(call);
    size_t at = open.size();
    if (index.has_value()) {
      for (size_t i = open.size(); i-- > 0;) {
        if (open[i].index != *index) continue;
        at = i;
        break;
      }
    } else if (!open.empty() && (id.empty() || name.empty())) {
      at = open.size() - 1;
    }
    if (at == open.size()) return at;
    const ToolCall& known = answer_.tool_calls[at];
    const bool another = !id.empty() && !name.empty() && !known.id.empty() && known.id != id;
    return another ? open.size() : at;
  }

  void OnUsage(const element& usage) {
    if (!usage.is_object()) return;
    TokenUsage& used = answer_.usage;
    used.known = true;
    used.prompt_tokens = Count(usage, "prompt_tokens");
    used.completion_tokens = Count(usage, "completion_tokens");
    used.cached_prompt_tokens = Count(usage, "prompt_cache_hit_tokens");
    if (const std::optional<element> details = Find(usage, "prompt_tokens_details")) {
      used.cached_prompt_tokens =
          std::max(used.cached_prompt_tokens, Count(*details, "cached_tokens"));
    }
    used.cached_prompt_tokens = std::min(used.cached_prompt_tokens, used.prompt_tokens);
    if (const std::optional<element> details = Find(usage, "completion_tokens_details")) {
      used.reasoning_tokens = Count(*details, "reasoning_tokens");
    }
  }

  void OnErrorObject(const element& object, const element& error) {
    std::string_view message = error.is_string() ? Text(error) : TextAt(error, "message");
    const std::string_view code = TextAt(error, "code");
    const std::string_view type = TextAt(error, "type");
    int64_t status = std::max({Count(error, "code"), Count(error, "status_code"),
                               Count(object, "code"), Count(object, "status")});
    if (status < 400 || status > 599) {
      // By name if there is no number.
      status = code == "rate_limit_exceeded" || type == "rate_limit_error" ||
                       code == "insufficient_quota" || type == "insufficient_quota"
                   ? 429
                   : 500;
    }
    if (message.empty()) message = "the endpoint sent an error without a message";
    to_.Fail(ClassifyHttpStatus(static_cast<int>(status), code, type), message);
    to_.error_.code = OneLine(code.empty() ? type : code, kMaxNameBytes);
  }

  // Appends a string, or the texts of a list of parts.
  bool AppendText(const std::optional<element>& value, std::string& to, Run& run) {
    if (!value.has_value()) return true;
    if (value->is_string()) return to_.Append(to, Text(value), run);
    simdjson::dom::array parts;
    if (value->get_array().get(parts) != simdjson::SUCCESS) return true;
    for (const element part : parts) {
      if (!to_.Append(to, TextAt(part, "text"), run)) return false;
    }
    return true;
  }

  ChatAccumulator& to_;
  ChatAnswer& answer_;
};

ChatAccumulator::State ChatAccumulator::OnEvent(std::string_view data) {
  if (Over(state_)) return state_;
  if (data == "[DONE]") {
    if (state_ == State::kOpen && !has_token_) {
      Fail(ErrorKind::kMalformed, "the stream ended without an answer");
    } else {
      state_ = State::kDone;
    }
    return state_;
  }
  const std::optional<element> object = Parser::OfThread().Parse(data);
  if (!object.has_value() || !object->is_object()) {
    Fail(ErrorKind::kMalformed,
         absl::StrCat("an event is not a JSON object: ", OneLine(data, kMaxMessageBytes / 4)));
    return state_;
  }
  Reader(*this).OnObject(*object, "delta");
  return state_;
}

ChatAccumulator::State ChatAccumulator::OnWhole(std::string_view json) {
  if (Over(state_)) return state_;
  const std::optional<element> object = Parser::OfThread().Parse(json);
  if (!object.has_value() || !object->is_object()) {
    Fail(ErrorKind::kMalformed,
         absl::StrCat("the answer is not a JSON object: ", OneLine(json, kMaxMessageBytes / 4)));
    return state_;
  }
  Reader(*this).OnObject(*object, "message");
  if (Over(state_)) return state_;
  if (state_ != State::kFinished && !has_token_) {
    Fail(ErrorKind::kMalformed, "the answer has no choices");
  } else {
    state_ = State::kDone;
  }
  return state_;
}

ChatAnswer ChatAccumulator::TakeAnswer() { return std::move(answer_); }

bool ChatAccumulator::Append(std::string& to, std::string_view text, Run& run) {
  if (text.empty()) return true;
  has_token_ = true;
  size_t kept = text.size();
  bool loop = false;
  for (size_t i = 0; i < text.size(); ++i) {
    run.length = IsBlank(text[i]) ? run.length + 1 : 0;
    if (limits_.max_whitespace_run > 0 && run.length >= limits_.max_whitespace_run) {
      kept = i + 1;
      loop = true;
      break;
    }
  }
  if (bytes_ + static_cast<int64_t>(kept) > limits_.max_answer_bytes) {
    Fail(ErrorKind::kAnswerTooLarge,
         absl::StrCat("the answer has more than ", limits_.max_answer_bytes, " bytes"));
    return false;
  }
  bytes_ += static_cast<int64_t>(kept);
  to.append(text.substr(0, kept));
  if (!loop) return true;
  while (!to.empty() && IsBlank(to.back())) to.pop_back();
  state_ = State::kCut;
  answer_.finish_reason = FinishReason::kWhitespaceLoop;
  return false;
}

void ChatAccumulator::Fail(ErrorKind kind, std::string_view message) {
  state_ = State::kFailed;
  error_.kind = kind;
  error_.message = OneLine(message, kMaxMessageBytes);
}

}  // namespace kernelcast::llm
