#include "common/llm/chat_accumulator.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/llm/json_text.h"
#include "common/llm/retry_policy.h"

namespace kernelcast::llm {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxToolCalls = 32;
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxMessageBytes = 500;
// An endpoint that writes arguments as an object writes a flat one, or nearly so.
constexpr int kMaxArgumentDepth = 32;

const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

int64_t Count(const Json& object, const char* key) {
  const Json* const value = Find(object, key);
  if (value == nullptr || !value->is_number()) return 0;
  const double number = value->get<double>();
  return number >= 0 && number < 1e12 ? static_cast<int64_t>(number) : 0;
}

bool DeeperThan(const Json& value, int depth) {
  if (!value.is_structured()) return false;
  if (depth == 0) return true;
  return std::any_of(value.begin(), value.end(),
                     [depth](const Json& child) { return DeeperThan(child, depth - 1); });
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
  const Json object = ParseJson(data);
  if (!object.is_object()) {
    Fail(ErrorKind::kMalformed,
         absl::StrCat("an event is no JSON object: ", OneLine(data, kMaxMessageBytes / 4)));
    return state_;
  }
  OnObject(object, "delta");
  return state_;
}

ChatAccumulator::State ChatAccumulator::OnWhole(std::string_view json) {
  if (Over(state_)) return state_;
  const Json object = ParseJson(json);
  if (!object.is_object()) {
    Fail(ErrorKind::kMalformed,
         absl::StrCat("the answer is no JSON object: ", OneLine(json, kMaxMessageBytes / 4)));
    return state_;
  }
  OnObject(object, "message");
  if (Over(state_)) return state_;
  if (state_ != State::kFinished && !has_token_) {
    Fail(ErrorKind::kMalformed, "the answer has no choices");
  } else {
    state_ = State::kDone;
  }
  return state_;
}

ChatAnswer ChatAccumulator::TakeAnswer() { return std::move(answer_); }

void ChatAccumulator::OnObject(const Json& object, const char* message_key) {
  if (const Json* const error = Find(object, "error")) return OnErrorObject(object, *error);
  if (StringAt(object, "object") == "error") return OnErrorObject(object, object);
  if (answer_.id.empty()) answer_.id = StringAt(object, "id").substr(0, kMaxNameBytes);
  if (answer_.model.empty()) answer_.model = StringAt(object, "model").substr(0, kMaxNameBytes);
  if (const Json* const usage = Find(object, "usage")) OnUsage(*usage);

  const Json* const choices = Find(object, "choices");
  if (choices == nullptr || !choices->is_array()) return;
  for (const Json& choice : *choices) {
    if (!choice.is_object() || Count(choice, "index") != 0) continue;
    if (const Json* const message = Find(choice, message_key)) OnMessage(*message);
    if (Over(state_)) return;
    if (const Json* const reason = Find(choice, "finish_reason"); reason && reason->is_string()) {
      state_ = State::kFinished;
      answer_.finish_reason = ParseFinishReason(reason->get_ref<const std::string&>());
    }
    return;
  }
}

void ChatAccumulator::OnMessage(const Json& message) {
  const Json* reasoning = Find(message, "reasoning");
  if (reasoning == nullptr) reasoning = Find(message, "reasoning_content");
  if (reasoning != nullptr && !AppendText(*reasoning, answer_.reasoning, reasoning_run_)) return;
  const Json* const content = Find(message, "content");
  if (content != nullptr && !AppendText(*content, answer_.content, content_run_)) return;
  const Json* const calls = Find(message, "tool_calls");
  if (calls == nullptr || !calls->is_array()) return;
  for (const Json& call : *calls) {
    OnToolCall(call);
    if (Over(state_)) return;
  }
}

void ChatAccumulator::OnToolCall(const Json& call) {
  const Json* const function = Find(call, "function");
  if (function == nullptr || !function->is_object()) return;
  const std::string id = StringAt(call, "id").substr(0, kMaxNameBytes);
  const std::string name = StringAt(*function, "name");

  // Calls are told apart by index. Where there is none, or all have the same, a new id and name
  // begin a new call.
  const Json* const index = Find(call, "index");
  const bool has_index = index != nullptr && index->is_number_integer();
  size_t at = answer_.tool_calls.size();
  if (has_index) {
    for (size_t i = open_calls_.size(); i-- > 0;) {
      if (open_calls_[i].index != index->get<int64_t>()) continue;
      at = i;
      break;
    }
  } else if (!open_calls_.empty() && (id.empty() || name.empty())) {
    at = open_calls_.size() - 1;
  }
  if (at < answer_.tool_calls.size()) {
    const ToolCall& known = answer_.tool_calls[at];
    const bool another = !id.empty() && !name.empty() && !known.id.empty() && known.id != id;
    if (another) at = answer_.tool_calls.size();
  }
  if (at == answer_.tool_calls.size()) {
    if (at >= kMaxToolCalls)
      return Fail(ErrorKind::kMalformed, "the answer has too many tool calls");
    answer_.tool_calls.emplace_back();
    open_calls_.push_back({has_index ? index->get<int64_t>() : -1, Run{}});
  }

  ToolCall& target = answer_.tool_calls[at];
  has_token_ = true;
  if (target.id.empty()) target.id = id;
  // Sent once, or in each piece, or in pieces itself.
  if (target.name != name && target.name.size() + name.size() <= kMaxNameBytes &&
      (target.name.empty() || target.arguments.empty())) {
    bytes_ += static_cast<int64_t>(name.size());
    target.name += name;
  }
  const Json* const arguments = Find(*function, "arguments");
  if (arguments == nullptr) return;
  if (arguments->is_string()) {
    Append(target.arguments, arguments->get_ref<const std::string&>(), open_calls_[at].run);
  } else if (arguments->is_object()) {
    if (DeeperThan(*arguments, kMaxArgumentDepth)) {
      return Fail(ErrorKind::kMalformed, "the arguments of a tool call are nested too deeply");
    }
    Append(target.arguments, arguments->dump(), open_calls_[at].run);
  }
}

void ChatAccumulator::OnUsage(const Json& usage) {
  if (!usage.is_object()) return;
  TokenUsage& told = answer_.usage;
  told.known = true;
  told.prompt_tokens = Count(usage, "prompt_tokens");
  told.completion_tokens = Count(usage, "completion_tokens");
  told.cached_prompt_tokens = Count(usage, "prompt_cache_hit_tokens");
  if (const Json* const details = Find(usage, "prompt_tokens_details")) {
    told.cached_prompt_tokens =
        std::max(told.cached_prompt_tokens, Count(*details, "cached_tokens"));
  }
  told.cached_prompt_tokens = std::min(told.cached_prompt_tokens, told.prompt_tokens);
  if (const Json* const details = Find(usage, "completion_tokens_details")) {
    told.reasoning_tokens = Count(*details, "reasoning_tokens");
  }
}

void ChatAccumulator::OnErrorObject(const Json& object, const Json& error) {
  std::string message = error.is_string() ? error.get<std::string>() : StringAt(error, "message");
  std::string code = StringAt(error, "code");
  const std::string type = StringAt(error, "type");
  int64_t status = std::max({Count(error, "code"), Count(error, "status_code"),
                             Count(object, "code"), Count(object, "status")});
  if (status < 400 || status > 599) {
    // By name where there is no number.
    status = code == "rate_limit_exceeded" || type == "rate_limit_error" ||
                     code == "insufficient_quota" || type == "insufficient_quota"
                 ? 429
                 : 500;
  }
  if (message.empty()) message = "the endpoint sent an error without a message";
  Fail(ClassifyHttpStatus(static_cast<int>(status), code, type), std::move(message));
  error_.code = OneLine(code.empty() ? type : code, kMaxNameBytes);
}

bool ChatAccumulator::AppendText(const Json& value, std::string& to, Run& run) {
  if (value.is_string()) return Append(to, value.get_ref<const std::string&>(), run);
  if (!value.is_array()) return true;
  for (const Json& part : value) {
    const Json* const text = Find(part, "text");
    if (text == nullptr || !text->is_string()) continue;
    if (!Append(to, text->get_ref<const std::string&>(), run)) return false;
  }
  return true;
}

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

void ChatAccumulator::Fail(ErrorKind kind, std::string message) {
  state_ = State::kFailed;
  error_.kind = kind;
  error_.message = OneLine(message, kMaxMessageBytes);
}

}  // namespace kernelcast::llm
