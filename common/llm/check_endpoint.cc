#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/status.h"
#include "common/llm/client.h"
#include "common/llm/curl_transport.h"
#include "common/llm/json_text.h"

namespace kernelcast::llm {
namespace {

constexpr size_t kMaxBytes = 4 << 20;
constexpr size_t kMaxReportedBytes = 300;
constexpr size_t kNamedModels = 5;

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  auto* const body = static_cast<std::string*>(user);
  const size_t bytes = size * count;
  if (body->size() + bytes > kMaxBytes) return CURL_WRITEFUNC_ERROR;
  body->append(data, bytes);
  return bytes;
}

// The ids in an endpoint's list, or empty if the response is not a list.
std::vector<std::string> ListedModels(const std::string& body) {
  std::vector<std::string> models;
  const nlohmann::json json = ParseJson(body);
  if (!json.is_object() || !json.contains("data") || !json["data"].is_array()) return models;
  for (const nlohmann::json& model : json["data"]) {
    std::string id = StringAt(model, "id");
    if (!id.empty()) models.push_back(std::move(id));
  }
  return models;
}

std::string Who(const EndpointConfig& endpoint) {
  return absl::StrCat("endpoint '", endpoint.name, "' (", endpoint.url, ")");
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListModels(const EndpointConfig& endpoint,
                                                    int64_t timeout_ns) {
  KC_RETURN_IF_ERROR(InitializeCurl());
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(), &curl_easy_cleanup);
  if (handle == nullptr) return absl::UnavailableError("libcurl: out of memory");
  ConfigureCurlHandle(handle.get(), endpoint, timeout_ns);
  std::string body;
  std::array<char, CURL_ERROR_SIZE> error{};
  const std::string url = endpoint.url + "/models";
  curl_easy_setopt(handle.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_TIMEOUT_MS,
                   static_cast<long>(std::max<int64_t>(timeout_ns / 1'000'000, 1)));
  curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &body);
  curl_easy_setopt(handle.get(), CURLOPT_ERRORBUFFER, error.data());
  curl_slist* list = nullptr;
  if (!endpoint.api_key.empty()) {
    list =
        curl_slist_append(list, absl::StrCat("Authorization: Bearer ", endpoint.api_key).c_str());
  }
  for (const auto& [name, value] : endpoint.headers) {
    list = curl_slist_append(list, absl::StrCat(name, ": ", value).c_str());
  }
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(list, &curl_slist_free_all);
  curl_easy_setopt(handle.get(), CURLOPT_HTTPHEADER, headers.get());

  const CURLcode code = curl_easy_perform(handle.get());
  const std::string who = Who(endpoint);
  if (code != CURLE_OK) {
    return absl::UnavailableError(absl::StrCat(
        who, " cannot be reached: ",
        OneLine(error[0] != '\0' ? error.data() : curl_easy_strerror(code), kMaxReportedBytes)));
  }
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status == 401 || status == 403) {
    return absl::UnauthenticatedError(absl::StrCat(
        who, " answers ", status, ": ",
        endpoint.api_key.empty() ? "it requires a key, see api_key_file" : "it refuses the key"));
  }
  if (status >= 500) return absl::UnavailableError(absl::StrCat(who, " answers ", status));
  const size_t first = body.find_first_not_of(" \t\r\n");
  if (status == 200 && first != std::string::npos && body[first] == '<') {
    return absl::NotFoundError(absl::StrCat(
        who, " answers with a web page: the URL must be the one before /chat/completions, such as ",
        "http://HOST:PORT/v1"));
  }
  std::vector<std::string> models = status == 200 ? ListedModels(body) : std::vector<std::string>();
  for (std::string& model : models) model = OneLine(model, kMaxReportedBytes);
  return models;
}

absl::Status CheckEndpoint(const EndpointConfig& endpoint, int64_t timeout_ns) {
  KC_ASSIGN_OR_RETURN(const std::vector<std::string> models, ListModels(endpoint, timeout_ns));
  if (models.empty()) return absl::OkStatus();
  if (std::find(models.begin(), models.end(), endpoint.model) != models.end()) {
    return absl::OkStatus();
  }
  std::string known;
  for (size_t i = 0; i < models.size() && i < kNamedModels; ++i) {
    absl::StrAppend(&known, i == 0 ? "" : ", ", models[i]);
  }
  if (models.size() > kNamedModels) absl::StrAppend(&known, ", ...");
  return absl::NotFoundError(
      absl::StrCat(Who(endpoint), " has no model '", endpoint.model, "'; it has ", known));
}

}  // namespace kernelcast::llm
