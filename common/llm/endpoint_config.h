#ifndef KERNELCAST_COMMON_LLM_ENDPOINT_CONFIG_H_
#define KERNELCAST_COMMON_LLM_ENDPOINT_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast::llm {

// Per million tokens, in any one currency.
struct Prices {
  double prompt = 0;
  double cached_prompt = 0;  // default: same as `prompt`
  double completion = 0;
};

// Name and value of an HTTP header.
using Header = std::pair<std::string, std::string>;

// One OpenAI-compatible endpoint. docs/howto/llm.md describes the keys of the file.
struct EndpointConfig {
  std::string name;  // in metrics and logs; default: host and port of the URL
  std::string url;   // without "/chat/completions": "http://127.0.0.1:8000/v1"
  std::string model;
  double weight = 1;

  std::string api_key_file;  // one line; empty: no key is sent
  std::string api_key;       // content of the file; never written to a file or a log
  std::string ca_file;       // PEM; empty: the system's authorities
  // "environment" (http_proxy, https_proxy, all_proxy, no_proxy), "none", or the URL of a proxy.
  // Loopback addresses never use a proxy.
  std::string proxy = "environment";
  std::vector<Header> headers;
  // Whether requests carry their trace in the headers traceparent and tracestate.
  bool trace_headers = true;

  int initial_concurrency = 16;
  int max_concurrency = 512;

  Prices prices;

  // "max_tokens", or "max_completion_tokens" for endpoints that reject the former.
  std::string max_tokens_field = "max_tokens";
  // Fields that this endpoint rejects: any of temperature, seed and stream_options.
  std::vector<std::string> omit;
  // A JSON object whose fields are added to each request. Empty: none.
  std::string extra_body;
};

struct LlmConfig {
  std::vector<EndpointConfig> endpoints;

  int64_t connect_timeout_ns = 5'000'000'000;
  int64_t first_byte_timeout_ns = 60'000'000'000;
  int64_t silence_timeout_ns = 30'000'000'000;
  // Limit of a call whose caller sets no deadline, including retries and queueing.
  int64_t total_ns = 300'000'000'000;

  // Maximum attempts per call, without hedges.
  int max_attempts = 3;
  int64_t backoff_base_ns = 200'000'000;
  int64_t backoff_cap_ns = 20'000'000'000;
  // Retries and hedges as a share of calls. The reserve allows retries when there are few calls.
  double retry_budget_ratio = 0.1;
  int retry_budget_reserve = 10;

  bool hedge = true;
  int64_t hedge_min_delay_ns = 100'000'000;

  // The breaker of an endpoint opens after this many consecutive failures, or if at least
  // breaker_min_samples attempts were made within 10 s and this share of them failed. After
  // breaker_open_ns it lets one call through. The delay doubles with each failed trial, up to
  // breaker_open_cap_ns.
  int breaker_consecutive_failures = 5;
  double breaker_failure_ratio = 0.5;
  int breaker_min_samples = 20;
  int64_t breaker_open_ns = 1'000'000'000;
  int64_t breaker_open_cap_ns = 30'000'000'000;

  // Limits on calls that are accepted and not finished, and on the bytes of their prompts as sent.
  int max_pending_calls = 20'000;
  int64_t max_pending_bytes = int64_t{1} << 30;
  int64_t max_answer_bytes = 1 << 20;
};

// Parses YAML text; `file` is used in messages. Checks everything that can be checked without the
// network, and reads the key files, whose paths are relative to the file's folder. INVALID_ARGUMENT
// with one line, "FILE:LINE: what", for the first error: an unknown or repeated key, a value out of
// range, an invalid URL, an empty model, or an unreadable key or CA file.
[[nodiscard]] absl::StatusOr<LlmConfig> ParseLlmConfig(std::string_view yaml,
                                                       const std::string& file);
// NOT_FOUND: the file cannot be read. Other errors as ParseLlmConfig.
[[nodiscard]] absl::StatusOr<LlmConfig> LoadLlmConfig(const std::string& path);

// Configures one endpoint with defaults, as --llm URL --llm-model MODEL request. INVALID_ARGUMENT:
// as ParseLlmConfig.
[[nodiscard]] absl::StatusOr<LlmConfig> ConfigForUrl(std::string_view url, std::string_view model,
                                                     const std::string& api_key_file = "");

// Checks a configuration made by a program. LlmClient::Create calls it too. INVALID_ARGUMENT: as
// ParseLlmConfig.
[[nodiscard]] absl::Status ValidateLlmConfig(const LlmConfig& config);

// Parts of an endpoint's URL.
struct EndpointUrl {
  bool tls = false;
  std::string host;  // as in the URL, including the brackets of an IPv6 address
  int port = 0;      // default: 80 or 443
  std::string base;  // the URL without trailing slashes
  bool loopback = false;
};
// INVALID_ARGUMENT: not http:// or https://, no host, a port out of range, user names, a query, a
// fragment, spaces or control characters.
[[nodiscard]] absl::StatusOr<EndpointUrl> ParseEndpointUrl(std::string_view url);

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_ENDPOINT_CONFIG_H_
