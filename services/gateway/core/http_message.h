#ifndef KERNELCAST_SERVICES_GATEWAY_CORE_HTTP_MESSAGE_H_
#define KERNELCAST_SERVICES_GATEWAY_CORE_HTTP_MESSAGE_H_

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast::gateway {

// The candidate that a request is about, for the log. Empty: none, or several.
struct RequestSubject {
  std::string request_id;  // of its evaluation, as the orchestrator knows it
  std::string candidate_id;
};

struct HttpRequest {
  std::string method;             // "GET"
  std::vector<std::string> path;  // decoded segments
  std::map<std::string, std::string> query;
  std::string content_type;
  std::string body;
  // Stands for the caller's credentials, without containing them. Empty: there are none.
  std::string caller;
  // If not null, dialects fill it.
  RequestSubject* subject = nullptr;
};

struct HttpReply {
  int status = 200;
  nlohmann::json body;
  int retry_after_s = 0;  // 0: no such header
  std::string page = {};  // HTML, instead of the body
};

// Splits a request's target, "/a%20b/c?d=e", into path and query. INVALID_ARGUMENT: a bad escape,
// or more than 64 segments or parameters.
[[nodiscard]] absl::Status ParseTarget(std::string_view target, HttpRequest& request);

// The credentials in an Authorization header as "Bearer TOKEN". Basic authentication, which clients
// make from http://USER:TOKEN@HOST, has the token as its password. Other text is returned as it is.
std::string BearerFromHeader(std::string_view authorization);

// A file that was uploaded as multipart/form-data.
struct UploadedFile {
  std::string file_name;
  std::string content;
};

// Finds the part `name` of a body. INVALID_ARGUMENT: no multipart/form-data, or no such part.
[[nodiscard]] absl::StatusOr<UploadedFile> FindUpload(std::string_view content_type,
                                                      std::string_view body, std::string_view name);

// Parses a JSON object. INVALID_ARGUMENT: it is not one.
[[nodiscard]] absl::StatusOr<nlohmann::json> ParseJsonBody(const HttpRequest& request);

// Fields of an object. Missing fields and null are `fallback`, or INVALID_ARGUMENT without one.
[[nodiscard]] absl::StatusOr<std::string> JsonText(
    const nlohmann::json& object, const std::string& field,
    const std::optional<std::string>& fallback = std::nullopt);
[[nodiscard]] absl::StatusOr<double> JsonNumber(const nlohmann::json& object,
                                                const std::string& field, double fallback);
// A missing list is empty.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> JsonTexts(const nlohmann::json& object,
                                                                 const std::string& field);

// The status code that says the same as `status`.
int HttpStatus(const absl::Status& status);

// "2026-11-24T03:50:13.123Z".
std::string FormatTime(int64_t wall_ns);

}  // namespace kernelcast::gateway

#endif  // KERNELCAST_SERVICES_GATEWAY_CORE_HTTP_MESSAGE_H_
