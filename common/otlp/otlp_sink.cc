#include "common/otlp/otlp_sink.h"

#include <curl/curl.h>

#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kernelcast {
namespace {

constexpr long kTimeoutMs = 10'000;
constexpr long kConnectTimeoutMs = 3'000;

size_t Discard(char*, size_t size, size_t count, void*) { return size * count; }

}  // namespace

struct OtlpSink::Handles {
  ~Handles() {
    curl_slist_free_all(headers);
    curl_easy_cleanup(easy);
  }
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
};

OtlpSink::OtlpSink(std::string url, TraceResource resource, std::unique_ptr<Handles> handles)
    : url_(std::move(url)), resource_(std::move(resource)), handles_(std::move(handles)) {}

OtlpSink::~OtlpSink() = default;

absl::StatusOr<std::unique_ptr<OtlpSink>> OtlpSink::Create(const std::string& endpoint,
                                                           TraceResource resource) {
  std::string_view base = endpoint;
  while (base.ends_with('/')) base.remove_suffix(1);
  const std::string_view host =
      base.substr(base.find("://") == base.npos ? 0 : base.find("://") + 3);
  if (!(base.starts_with("http://") || base.starts_with("https://")) || host.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--otlp-endpoint: '", endpoint, "' is not an http or https URL such as http://HOST:4318"));
  }
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  auto handles = std::make_unique<Handles>();
  if (initialized == CURLE_OK) handles->easy = curl_easy_init();
  if (handles->easy == nullptr) return absl::ResourceExhaustedError("libcurl cannot be used");
  // Disables Expect, which costs a round trip.
  for (const char* header : {"Content-Type: application/json", "Expect:"}) {
    handles->headers = curl_slist_append(handles->headers, header);
  }
  return std::unique_ptr<OtlpSink>(
      new OtlpSink(std::string(base) + "/v1/traces", std::move(resource), std::move(handles)));
}

absl::Status OtlpSink::Export(const std::vector<SpanData>& spans) {
  const std::string body = OtlpJson(resource_, spans);
  CURL* const easy = handles_->easy;
  std::array<char, CURL_ERROR_SIZE> error{};
  curl_easy_setopt(easy, CURLOPT_URL, url_.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, handles_->headers);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, kTimeoutMs);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Discard);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error.data());
  const CURLcode code = curl_easy_perform(easy);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, nullptr);
  if (code != CURLE_OK) {
    return absl::UnavailableError(
        absl::StrCat(url_, ": ", error[0] != '\0' ? error.data() : curl_easy_strerror(code)));
  }
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  if (status < 200 || status >= 300) {
    return absl::UnavailableError(absl::StrCat(url_, " answers ", status));
  }
  return absl::OkStatus();
}

}  // namespace kernelcast
