#include "common/llm/chat_accumulator.h"

#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/strings.h"
#include "common/llm/error_object.h"
#include "common/llm/json_text.h"
#include "common/llm/reasoning_marks.h"

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

// The words of OpenAI and of the servers that imitate it, some of which pass on those of Anthropic
// or Google.
FinishReason ParseFinishReason(std::string_view written) {
  const std::string name = absl::AsciiStrToLower(absl::string_view(written.data(), written.size()));
  const auto is_one_of = [&name](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (is_one_of({"stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete"})) {
    return FinishReason::kStop;
  }
  if (is_one_of({"length", "max_tokens", "max_output_tokens", "model_length",
                 "model_context_window_exceeded"})) {
    return FinishReason::kLength;
  }
  if (is_one_of({"tool_calls", "function_call", "tool_use"})) return FinishReason::kToolCalls;
  if (is_one_of({"content_filter", "refusal", "safety", "recitation", "blocklist", "sensitive",
                 "prohibited_content"})) {
    return FinishReason::kContentFilter;
  }
  return FinishReason::kUnknown;
}

// Words that say that the endpoint failed to write the answer.
bool IsFailureWord(std::string_view finish_reason) {
  return finish_reason == "error" || finish_reason == "abort" || finish_reason == "network_error" ||
         finish_reason == "insufficient_system_resource";
}

bool IsBlankByte(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

bool Over(ChatAccumulator::State state) {
  return state == ChatAccumulator::State::kDone || state == ChatAccumulator::State::kCut ||
         state == ChatAccumulator::State::kFailed;
}

}  // namespace

class ChatAccumulator::Reader {
 public:
  explicit Reader(ChatAccumulator& to) : to_(to), answer_(to.answer_) {}

  // `message_key`: where a choice has its part of the answer, unless it is under another key.
  void OnObject(const element& object, std::string_view message_key) {
    if (Find(object, "error").has_value() || TextAt(object, "object") == "error") {
      return OnErrorObject(object);
    }
    if (answer_.id.empty()) answer_.id = TextAt(object, "id").substr(0, kMaxNameBytes);
    if (answer_.model.empty()) answer_.model = TextAt(object, "model").substr(0, kMaxNameBytes);
    if (const std::optional<element> usage = Find(object, "usage")) OnUsage(*usage);

    simdjson::dom::array choices;
    const std::optional<element> list = Find(object, "choices");
    if (!list.has_value() || list->get_array().get(choices) != simdjson::SUCCESS) {
      const std::optional<element> message = Find(object, "message");
      const bool is_error = (message.has_value() && message->is_string()) ||
                            Find(object, "detail").has_value() ||
                            Find(object, "errors").has_value();
      if (!list.has_value() && is_error) OnErrorObject(object);
      return;
    }
    for (const element choice : choices) {
      if (!choice.is_object() || Count(choice, "index") != 0) continue;
      OnChoice(choice, message_key);
      return;
    }
  }

 private:
  void OnChoice(const element& choice, std::string_view message_key) {
    if (Find(choice, "error").has_value()) return OnErrorObject(choice);
    std::optional<element> message = Find(choice, message_key);
    // A stream may consist of one whole answer.
    if (!message.has_value() && !to_.has_token_) {
      message = Find(choice, message_key == "delta" ? "message" : "delta");
    }
    if (message.has_value()) OnMessage(*message);
    if (Over(to_.state_)) return;
    const std::optional<element> reason = Find(choice, "finish_reason");
    if (!reason.has_value() || !reason->is_string()) return;
    if (IsFailureWord(Text(reason))) {
      return to_.Fail(ErrorKind::kServerError, absl::StrCat("the answer ended with finish_reason '",
                                                            std::string(Text(reason)), "'"));
    }
    to_.state_ = State::kFinished;
    answer_.finish_reason = ParseFinishReason(Text(reason));
  }

  void OnMessage(const element& message) {
    // Servers that send several of these send the same text in each.
    for (const char* key : {"reasoning", "reasoning_content", "thinking", "reasoning_details"}) {
      const size_t before = answer_.reasoning.size();
      if (!AppendText(Find(message, key), answer_.reasoning, to_.reasoning_run_)) return;
      if (answer_.reasoning.size() != before) break;
    }
    if (!AppendContent(Find(message, "content"))) return;
    if (!AppendText(Find(message, "refusal"), answer_.refusal, to_.reasoning_run_)) return;
    // The older form of a single tool call.
    if (const std::optional<element> call = Find(message, "function_call")) {
      OnFunction(/*at=*/PlaceOf(message, "", ""), message, "", *call);
      if (Over(to_.state_)) return;
    }
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
    OnFunction(PlaceOf(call, id, TextAt(*function, "name")), call, id, *function);
  }

  void OnFunction(size_t at, const element& call, std::string_view id, const element& function) {
    if (at == answer_.tool_calls.size()) {
      if (at >= kMaxToolCalls) {
        return to_.Fail(ErrorKind::kMalformed, "the answer has too many tool calls");
      }
      answer_.tool_calls.emplace_back();
      to_.open_calls_.push_back({IndexOf(call).value_or(-1), Run{}, JsonEnd{}});
    }

    ToolCall& target = answer_.tool_calls[at];
    to_.has_token_ = true;
    if (target.id.empty()) target.id = id;
    // The name may be sent once, in every piece, or in pieces itself.
    const std::string_view name = TextAt(function, "name");
    if (target.name != name && target.name.size() + name.size() <= kMaxNameBytes &&
        (target.name.empty() || target.arguments.empty())) {
      to_.bytes_ += static_cast<int64_t>(name.size());
      target.name += name;
    }
    const std::optional<element> arguments = Find(function, "arguments");
    if (!arguments.has_value()) return;
    const size_t before = target.arguments.size();
    if (arguments->is_string()) {
      to_.Append(target.arguments, Text(arguments), to_.open_calls_[at].run);
    } else if (arguments->is_object()) {
      to_.Append(target.arguments, simdjson::minify(*arguments), to_.open_calls_[at].run);
    }
    if (target.arguments.size() <= before) return;
    to_.open_calls_[at].end.Read(std::string_view(target.arguments).substr(before));
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
  // call, unless the arguments of the last one are incomplete: some servers make a new id for each
  // piece.
  size_t PlaceOf(const element& call, std::string_view id, std::string_view name) const {
    const std::vector<OpenCall>& open = to_.open_calls_;
    if (open.empty()) return 0;
    const size_t last = open.size() - 1;
    const std::optional<int64_t> index = IndexOf(call);
    size_t at = open.size();
    if (index.has_value()) {
      for (size_t i = open.size(); i-- > 0;) {
        if (open[i].index != *index) continue;
        at = i;
        break;
      }
      // Not even the name says that a call begins.
      if (at == open.size() && name.empty() && !open[last].end.complete()) return last;
    } else if (id.empty() && !name.empty() && open[last].end.complete()) {
      return open.size();
    } else {
      at = last;
    }
    if (at == open.size() || id.empty() || name.empty()) return at;
    const ToolCall& known = answer_.tool_calls[at];
    const bool may_be_another =
        index.has_value() ? !known.id.empty() && known.id != id : known.id != id;
    const bool goes_on = known.name == name && !open[at].end.complete();
    return may_be_another && !goes_on ? open.size() : at;
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

  void OnErrorObject(const element& object) {
    // Rare, so that it may be parsed once more.
    const ChatError error = ReadErrorObject(ParseJson(simdjson::minify(object)), 0, "");
    to_.Fail(error.kind, error.message);
    to_.error_.code = error.code;
  }

  // The content, without the parts of a list that are reasoning.
  bool AppendContent(const std::optional<element>& content) {
    simdjson::dom::array parts;
    if (!content.has_value() || content->get_array().get(parts) != simdjson::SUCCESS) {
      return AppendText(content, answer_.content, to_.content_run_);
    }
    for (const element part : parts) {
      const std::string_view type = TextAt(part, "type");
      const bool is_reasoning = type == "reasoning" || type == "thinking";
      std::optional<element> text = Find(part, "text");
      if (!text.has_value() && is_reasoning) text = Find(part, "thinking");
      if (!AppendText(text, is_reasoning ? answer_.reasoning : answer_.content,
                      is_reasoning ? to_.reasoning_run_ : to_.content_run_)) {
        return false;
      }
    }
    return true;
  }

  // Appends a string, or the texts of a list of parts. An object is a part, or an answer that a
  // server has parsed.
  bool AppendText(const std::optional<element>& value, std::string& to, Run& run) {
    if (!value.has_value()) return true;
    if (value->is_string()) return to_.Append(to, Text(value), run);
    if (value->is_object()) {
      const std::optional<element> text = Find(*value, "text");
      return to_.Append(to, text.has_value() ? std::string(Text(text)) : simdjson::minify(*value),
                        run);
    }
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
  const std::optional<element> whole = Parser::OfThread().Parse(json);
  simdjson::dom::array objects;
  if (whole.has_value() && whole->is_object()) {
    Reader(*this).OnObject(*whole, "message");
  } else if (whole.has_value() && whole->get_array().get(objects) == simdjson::SUCCESS &&
             objects.size() > 0 && objects.at(0).is_object()) {
    // The events of a stream, or an error, in a list.
    for (const element object : objects) {
      Reader(*this).OnObject(object, "delta");
      if (Over(state_)) return state_;
    }
  } else if (!OnLines(json)) {
    Fail(ErrorKind::kMalformed,
         absl::StrCat("the answer is not a JSON object: ", OneLine(json, kMaxMessageBytes / 4)));
    return state_;
  }
  if (Over(state_)) return state_;
  if (state_ != State::kFinished && !has_token_) {
    Fail(ErrorKind::kMalformed,
         absl::StrCat("the answer has no choices: ", OneLine(json, kMaxMessageBytes / 4)));
  } else {
    state_ = State::kDone;
  }
  return state_;
}

bool ChatAccumulator::OnLines(std::string_view json) {
  if (json.find('\n') == std::string_view::npos) return false;
  bool any = false;
  while (!json.empty() && !Over(state_)) {
    const size_t end = std::min(json.find('\n'), json.size());
    const std::string_view line = json.substr(0, end);
    json.remove_prefix(std::min(end + 1, json.size()));
    if (IsBlank(line)) continue;
    const std::optional<element> object = Parser::OfThread().Parse(line);
    if (!object.has_value() || !object->is_object()) return any && Over(state_);
    any = true;
    Reader(*this).OnObject(*object, "delta");
  }
  return any;
}

ChatAnswer ChatAccumulator::TakeAnswer() {
  SeparateReasoning(answer_);
  return std::move(answer_);
}

void ChatAccumulator::JsonEnd::Read(std::string_view text) {
  for (const char c : text) {
    if (escaped_) {
      escaped_ = false;
    } else if (in_string_) {
      if (c == '\\') escaped_ = true;
      if (c == '"') in_string_ = false;
    } else if (c == '"') {
      in_string_ = true;
      begun_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
      begun_ = true;
    } else if (c == '}' || c == ']') {
      --depth_;
    }
  }
}

bool ChatAccumulator::Append(std::string& to, std::string_view text, Run& run) {
  if (text.empty()) return true;
  has_token_ = true;
  size_t kept = text.size();
  bool loop = false;
  for (size_t i = 0; i < text.size(); ++i) {
    run.length = IsBlankByte(text[i]) ? run.length + 1 : 0;
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
  while (!to.empty() && IsBlankByte(to.back())) to.pop_back();
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
