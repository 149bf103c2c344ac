#include "common/llm/retry_policy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/strings.h"

namespace kernelcast::llm {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// Clamped so that sums of times do not overflow.
constexpr int64_t kMaxRetryAfterNs = 7 * int64_t{86400} * kSecondNs;

bool SaysMoneyIsSpent(std::string_view word) {
  constexpr std::array<std::string_view, 8> kWords = {
      "insufficient_quota",   "billing_hard_limit_reached", "billing_not_active",
      "insufficient_balance", "insufficient_credits",       "spend_limit_exceeded",
      "quota_exceeded",       "credit_limit_reached"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

// The last is llama.cpp's.
bool SaysContextIsTooLong(std::string_view word) {
  constexpr std::array<std::string_view, 6> kWords = {
      "context_length_exceeded", "context_window_exceeded", "string_above_max_length",
      "prompt_too_long",         "request_too_large",       "exceed_context_size_error"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

bool SaysFiltered(std::string_view word) {
  constexpr std::array<std::string_view, 5> kWords = {"content_filter", "content_policy_violation",
                                                      "ResponsibleAIPolicyViolation", "moderation",
                                                      "data_inspection_failed"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

}  // namespace

ErrorKind ClassifyHttpStatus(int status, std::string_view code, std::string_view type) {
  // Some servers report these two as internal errors.
  if (SaysContextIsTooLong(code) || SaysContextIsTooLong(type)) return ErrorKind::kContextTooLong;
  if (SaysFiltered(code) || SaysFiltered(type)) return ErrorKind::kContentFilter;
  if (status == 402) return ErrorKind::kSpendLimit;
  if (status == 429) {
    return SaysMoneyIsSpent(code) || SaysMoneyIsSpent(type) ? ErrorKind::kSpendLimit
                                                            : ErrorKind::kRateLimited;
  }
  if (status == 503 || status == 529) return ErrorKind::kUnavailable;
  if (status >= 500) return ErrorKind::kServerError;
  if (status == 401 || status == 403) return ErrorKind::kUnauthorized;
  if (status == 404) return ErrorKind::kNotFound;
  // The server timed out or saw conflicting requests: the request itself is valid.
  if (status == 408 || status == 409 || status == 425) return ErrorKind::kServerError;
  return status == 413 ? ErrorKind::kContextTooLong : ErrorKind::kRefused;
}

int StatusOfErrorName(std::string_view name) {
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size()) {
    return number >= 400 && number <= 599 ? number : 0;
  }
  if (SaysMoneyIsSpent(name)) return 429;
  if (SaysContextIsTooLong(name) || SaysFiltered(name)) return 400;
  // Names of OpenAI, Anthropic, Google, vLLM, SGLang and llama.cpp.
  constexpr std::pair<std::string_view, int> kNames[] = {
      {"rate_limit_exceeded", 429},
      {"rate_limit_error", 429},
      {"too_many_requests", 429},
      {"TooManyRequests", 429},
      {"RESOURCE_EXHAUSTED", 429},
      {"tokens", 429},
      {"requests", 429},
      {"overloaded_error", 503},
      {"overloaded", 503},
      {"unavailable_error", 503},
      {"service_unavailable", 503},
      {"UNAVAILABLE", 503},
      {"invalid_request_error", 400},
      {"invalid_request", 400},
      {"invalid_prompt", 400},
      {"unsupported_parameter", 400},
      {"unsupported_value", 400},
      {"BadRequest", 400},
      {"BadRequestError", 400},
      {"bad_request", 400},
      {"INVALID_ARGUMENT", 400},
      {"not_supported_error", 400},
      {"authentication_error", 401},
      {"invalid_api_key", 401},
      {"UNAUTHENTICATED", 401},
      {"permission_error", 403},
      {"PERMISSION_DENIED", 403},
      {"not_found_error", 404},
      {"model_not_found", 404},
      {"NotFoundError", 404},
      {"NOT_FOUND", 404},
  };
  for (const auto& [known, status] : kNames) {
    if (known == name) return status;
  }
  return 0;
}

bool MayPass(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUnreachable:
    case ErrorKind::kConnectTimeout:
    case ErrorKind::kFirstByteTimeout:
    case ErrorKind::kSilenceTimeout:
    case ErrorKind::kRateLimited:
    case ErrorKind::kUnavailable:
    case ErrorKind::kServerError:
    case ErrorKind::kMalformed:
    case ErrorKind::kCutOff: return true;
    default: return false;
  }
}

bool IsEndpointFault(ErrorKind kind) {
  return kind == ErrorKind::kSpendLimit || kind == ErrorKind::kUnauthorized ||
         kind == ErrorKind::kNotFound;
}

bool IsOverload(ErrorKind kind) {
  return kind == ErrorKind::kRateLimited || kind == ErrorKind::kUnavailable;
}

bool IsFailure(ErrorKind kind) { return MayPass(kind) && kind != ErrorKind::kRateLimited; }

std::optional<int64_t> ParseRetryAfter(std::string_view value, int64_t wall_ns) {
  const std::string_view trimmed = Trim(value);
  if (trimmed.empty()) return std::nullopt;
  double seconds = 0;
  const auto [end, error] =
      std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), seconds);
  if (end == trimmed.data() + trimmed.size()) {
    if (error == std::errc::result_out_of_range) return kMaxRetryAfterNs;
    if (error != std::errc() || !(seconds >= 0)) return std::nullopt;
    return static_cast<int64_t>(
        std::min(seconds * kSecondNs, static_cast<double>(kMaxRetryAfterNs)));
  }
  for (const char* format :
       {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"}) {
    absl::Time time;
    if (!absl::ParseTime(format, AbslView(trimmed), &time, nullptr)) continue;
    const absl::Duration wait = time - absl::FromUnixNanos(wall_ns);
    return std::clamp<int64_t>(absl::ToInt64Nanoseconds(wait), 0, kMaxRetryAfterNs);
  }
  return std::nullopt;
}

int64_t BackoffNs(int retry, int64_t base_ns, int64_t cap_ns, int64_t retry_after_ns,
                  double uniform) {
  int64_t ceiling = base_ns;
  for (int i = 0; i < retry && ceiling < cap_ns; ++i) ceiling *= 2;
  ceiling = std::min(ceiling, cap_ns);
  return retry_after_ns + static_cast<int64_t>(uniform * static_cast<double>(ceiling));
}

}  // namespace kernelcast::llm
