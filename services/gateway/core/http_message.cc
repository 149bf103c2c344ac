#include "services/gateway/core/http_message.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/base/bounded_json.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace kernelcast::gateway {
namespace {

using nlohmann::json;

constexpr size_t kMaxParts = 64;
constexpr std::string_view kBasic = "Basic ";

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

absl::StatusOr<std::string> PercentDecoded(std::string_view text, bool plus_is_space) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return absl::InvalidArgumentError("the URL has a bad escape");
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

// The value of a parameter of a header, as in `form-data; name="file"`. Empty: there is none.
std::string Parameter(std::string_view header, std::string_view name) {
  for (absl::string_view part : absl::StrSplit(AbslView(header), ';')) {
    part = absl::StripAsciiWhitespace(part);
    const size_t equals = part.find('=');
    if (equals == absl::string_view::npos ||
        !absl::EqualsIgnoreCase(part.substr(0, equals), AbslView(name))) {
      continue;
    }
    absl::string_view value = part.substr(equals + 1);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    return std::string(value);
  }
  return "";
}

// The header `content-disposition` of a part's head.
std::string Disposition(std::string_view head) {
  for (const absl::string_view line : absl::StrSplit(AbslView(head), "\r\n")) {
    if (absl::StartsWithIgnoreCase(line, "content-disposition:")) {
      return std::string(line.substr(line.find(':') + 1));
    }
  }
  return "";
}

absl::Status Expected(const std::string& field, const char* what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected ", what));
}

}  // namespace

absl::Status ParseTarget(std::string_view target, HttpRequest& request) {
  const size_t mark = target.find('?');
  const std::vector<absl::string_view> segments =
      absl::StrSplit(AbslView(target.substr(0, mark)), '/', absl::SkipEmpty());
  std::vector<absl::string_view> parameters;
  if (mark != std::string_view::npos) {
    parameters = absl::StrSplit(AbslView(target.substr(mark + 1)), '&', absl::SkipEmpty());
  }
  if (segments.size() > kMaxParts || parameters.size() > kMaxParts) {
    return absl::InvalidArgumentError("the URL has too many parts");
  }
  for (const absl::string_view segment : segments) {
    KC_ASSIGN_OR_RETURN(std::string decoded,
                        PercentDecoded({segment.data(), segment.size()}, false));
    request.path.push_back(std::move(decoded));
  }
  for (const absl::string_view parameter : parameters) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(parameter, absl::MaxSplits('=', 1));
    KC_ASSIGN_OR_RETURN(const std::string name, PercentDecoded(pair.first, true));
    KC_ASSIGN_OR_RETURN(request.query[name], PercentDecoded(pair.second, true));
  }
  return absl::OkStatus();
}

std::string BearerFromHeader(std::string_view authorization) {
  if (!absl::StartsWithIgnoreCase(AbslView(authorization), AbslView(kBasic))) {
    return std::string(authorization);
  }
  std::string decoded;
  const absl::string_view encoded =
      absl::StripAsciiWhitespace(AbslView(authorization.substr(kBasic.size())));
  if (!absl::Base64Unescape(encoded, &decoded)) return std::string(authorization);
  const size_t colon = decoded.find(':');
  if (colon == std::string::npos) return std::string(authorization);
  return absl::StrCat("Bearer ", decoded.substr(colon + 1));
}

absl::StatusOr<UploadedFile> FindUpload(std::string_view content_type, std::string_view body,
                                        std::string_view name) {
  const std::string boundary = Parameter(content_type, "boundary");
  if (!absl::StartsWithIgnoreCase(AbslView(content_type), "multipart/form-data") ||
      boundary.empty()) {
    return absl::InvalidArgumentError("expected multipart/form-data with a boundary");
  }
  const std::string delimiter = absl::StrCat("--", boundary);
  size_t at = body.find(delimiter);
  for (size_t parts = 0; at != std::string_view::npos && parts < kMaxParts; ++parts) {
    const size_t begin = at + delimiter.size();
    if (body.substr(begin, 2) == "--") break;
    const size_t head_end = body.find("\r\n\r\n", begin);
    if (head_end == std::string_view::npos) break;
    const size_t content = head_end + 4;
    const size_t end = body.find(absl::StrCat("\r\n", delimiter), content);
    if (end == std::string_view::npos) break;
    const std::string disposition = Disposition(body.substr(begin, head_end - begin));
    if (Parameter(disposition, "name") == name) {
      return UploadedFile{Parameter(disposition, "filename"),
                          std::string(body.substr(content, end - content))};
    }
    at = end + 2;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the form has no complete part '", AbslView(name), "'"));
}

absl::StatusOr<json> ParseJsonBody(const HttpRequest& request) {
  json body = ParseBoundedJson(request.body);
  if (!body.is_object()) return absl::InvalidArgumentError("expected a JSON object as the body");
  return body;
}

absl::StatusOr<std::string> JsonText(const json& object, const std::string& field,
                                     const std::optional<std::string>& fallback) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) {
    if (fallback.has_value()) return *fallback;
    return absl::InvalidArgumentError(absl::StrCat(field, ": is missing"));
  }
  if (!found->is_string()) return Expected(field, "a string");
  return found->get<std::string>();
}

absl::StatusOr<double> JsonNumber(const json& object, const std::string& field, double fallback) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return fallback;
  if (!found->is_number()) return Expected(field, "a number");
  return found->get<double>();
}

absl::StatusOr<std::vector<std::string>> JsonTexts(const json& object, const std::string& field) {
  std::vector<std::string> texts;
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return texts;
  if (!found->is_array()) return Expected(field, "a list of strings");
  for (const json& item : *found) {
    if (!item.is_string()) return Expected(field, "a list of strings");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

int HttpStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return 200;
    case absl::StatusCode::kInvalidArgument: return 400;
    case absl::StatusCode::kUnauthenticated: return 401;
    case absl::StatusCode::kPermissionDenied: return 403;
    case absl::StatusCode::kNotFound: return 404;
    case absl::StatusCode::kAlreadyExists: return 409;
    case absl::StatusCode::kResourceExhausted: return 429;
    case absl::StatusCode::kUnimplemented: return 501;
    case absl::StatusCode::kUnavailable: return 503;
    default: return 500;
  }
}

std::string FormatTime(int64_t wall_ns) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixNanos(wall_ns),
                          absl::UTCTimeZone());
}

}  // namespace kernelcast::gateway
