#include "common/llm/error_object.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/strings.h"
#include "common/llm/json_text.h"
#include "common/llm/retry_policy.h"

namespace kernelcast::llm {
namespace {

using nlohmann::json;

constexpr size_t kMaxErrorMessageBytes = 500;
constexpr size_t kMaxErrorCodeBytes = 64;
constexpr int kUnknownErrorStatus = 500;

// A string, or a whole number as text.
std::string WordAt(const json& object, const char* key) {
  const bool is_number =
      object.is_object() && object.contains(key) && object[key].is_number_integer();
  return is_number ? absl::StrCat(object[key].get<int64_t>()) : StringAt(object, key);
}

std::string MessageAt(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return "";
  const json& value = object[key];
  if (value.is_string()) return value.get<std::string>();
  // FastAPI and others list what is wrong with a request.
  const json& first = value.is_array() && !value.empty() ? value.front() : value;
  const std::string message = StringAt(first, "msg");
  return message.empty() ? StringAt(first, "message") : message;
}

// vLLM, SGLang and others have no code for this error, which is the most frequent one of small
// models. A prompt that is too long would otherwise be asked in every form.
bool MessageSaysContextIsTooLong(std::string_view message) {
  constexpr std::array<std::string_view, 6> kPhrases = {
      "maximum context length", "context length of only", "model's context length",
      "context size",           "context window",         "maximum model length"};
  const std::string lower = absl::AsciiStrToLower(AbslView(message));
  return std::any_of(kPhrases.begin(), kPhrases.end(), [&lower](std::string_view phrase) {
    return lower.find(phrase) != std::string::npos;
  });
}

}  // namespace

ChatError ReadErrorObject(const json& whole, int http_status, std::string_view text) {
  const json& body = whole.is_array() && !whole.empty() ? whole.front() : whole;
  const bool nested = body.is_object() && body.contains("error") && body["error"].is_object();
  const json& object = nested ? body["error"] : body;
  std::string message = MessageAt(object, "message");
  for (const char* key : {"error", "detail", "message", "errors"}) {
    if (message.empty()) message = MessageAt(body, key);
  }
  if (message.empty()) message = text;
  if (message.empty()) message = "the endpoint sent an error without a message";

  std::string code = WordAt(object, "code");
  std::string type = WordAt(object, "type");
  if (type.empty()) type = WordAt(object, "status");
  int status = http_status;
  if (status < 300) {
    status = 0;
    for (const std::string& word : {code, WordAt(object, "status_code"), WordAt(object, "status"),
                                    WordAt(body, "code"), WordAt(body, "status"), type}) {
      if (status == 0) status = StatusOfErrorName(word);
    }
    if (status == 0) status = kUnknownErrorStatus;
  }
  ChatError error;
  error.kind = ClassifyHttpStatus(status, code, type);
  if ((error.kind == ErrorKind::kRefused || error.kind == ErrorKind::kServerError) &&
      MessageSaysContextIsTooLong(message)) {
    error.kind = ErrorKind::kContextTooLong;
  }
  error.http_status = status;
  error.message = OneLine(message, kMaxErrorMessageBytes);
  // A number says no more than the status.
  const bool is_number =
      StatusOfErrorName(code) != 0 && code.find_first_not_of("0123456789") == std::string::npos;
  error.code =
      OneLine(code.empty() || (is_number && !type.empty()) ? type : code, kMaxErrorCodeBytes);
  return error;
}

}  // namespace kernelcast::llm
