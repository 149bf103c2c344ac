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
  double cached_prompt = 0;  // unless told, as `prompt`
  double completion = 0;
};

// An HTTP header's name and value, as it is sent.
using Header = std::pair<std::string, std::string>;

// One OpenAI-compatible endpoint. docs/llm.md describes each key of the file.
struct EndpointConfig {
  std::string name;  // in metrics and logs; unless told, host and port of the URL
  std::string url;   // up to, and without, "/chat/completions": "http://127.0.0.1:8000/v1"
  std::string model;
  double weight = 1;

  std::string api_key_file;  // one line; empty: no key is sent
  std::string api_key;       // what the file holds; never written in a file or a log
  std::string ca_file;       // PEM; empty: the system's authorities
  // "environment" (http_proxy, https_proxy, all_proxy, no_proxy), "none", or a proxy's URL. A
  // loopback address is reached without one, whatever is told.
  std::string proxy = "environment";
  std::vector<Header> headers;
  // Whether requests carry the trace that they belong to, as the headers traceparent and
  // tracestate.
  bool trace_headers = true;

  int initial_concurrency = 16;
  int max_concurrency = 512;

  Prices prices;

  // "max_tokens", or "max_completion_tokens" for endpoints that refuse the former.
  std::string max_tokens_field = "max_tokens";
  // Fields that this endpoint refuses: of temperature, seed and stream_options.
  std::vector<std::string> omit;
  // A JSON object whose fields are added to each request; empty: none.
  std::string extra_body;
};

struct LlmConfig {
  std::vector<EndpointConfig> endpoints;

  int64_t connect_timeout_ns = 5'000'000'000;
  int64_t first_byte_timeout_ns = 60'000'000'000;
  int64_t silence_timeout_ns = 30'000'000'000;
  // Of a call, retries and queueing included, whose caller sets no deadline.
  int64_t total_ns = 300'000'000'000;

  // Attempts of one call at one question, hedges not counted.
  int max_attempts = 3;
  int64_t backoff_base_ns = 200'000'000;
  int64_t backoff_cap_ns = 20'000'000'000;
  // Retries and hedges as a share of calls; a reserve lets small numbers of calls retry, too.
  double retry_budget_ratio = 0.1;
  int retry_budget_reserve = 10;

  bool hedge = true;
  int64_t hedge_min_delay_ns = 100'000'000;

  // The breaker of an endpoint opens after so many failures in a row, or when of at least
  // breaker_min_samples attempts within 10 s this share failed. It lets one call through after
  // breaker_open_ns, which doubles with each failed trial up to breaker_open_cap_ns.
  int breaker_consecutive_failures = 5;
  double breaker_failure_ratio = 0.5;
  int breaker_min_samples = 20;
  int64_t breaker_open_ns = 1'000'000'000;
  int64_t breaker_open_cap_ns = 30'000'000'000;

  // Calls that are accepted and not finished, and the bytes of their prompts as sent.
  int max_pending_calls = 20'000;
  int64_t max_pending_bytes = int64_t{1} << 30;
  int64_t max_answer_bytes = 1 << 20;
};

// From YAML text; `file` is named in messages. Checks all that can be checked without the network
// and reads the key files, relative paths being relative to the file's folder. INVALID_ARGUMENT
// with one line, "FILE:LINE: what", for the first mistake: an unknown or repeated key, a value out
// of range, a bad URL, an empty model, a key or authority file that cannot be read.
[[nodiscard]] absl::StatusOr<LlmConfig> ParseLlmConfig(std::string_view yaml,
                                                       const std::string& file);
// NOT_FOUND: the file cannot be read; else as ParseLlmConfig.
[[nodiscard]] absl::StatusOr<LlmConfig> LoadLlmConfig(const std::string& path);

// One endpoint with defaults, as --llm URL --llm-model MODEL ask for. INVALID_ARGUMENT.
[[nodiscard]] absl::StatusOr<LlmConfig> ConfigForUrl(std::string_view url, std::string_view model,
                                                     const std::string& api_key_file = "");

// Checks what a program may have filled in; LlmClient::Create does it, too. INVALID_ARGUMENT.
[[nodiscard]] absl::Status ValidateLlmConfig(const LlmConfig& config);

// The parts of an endpoint's URL.
struct EndpointUrl {
  bool tls = false;
  std::string host;  // as in the URL, brackets of an IPv6 address included
  int port = 0;      // 80 or 443 unless told
  std::string base;  // the URL without slashes at its end
  bool loopback = false;
};
// INVALID_ARGUMENT: not http:// or https://, no host, a port out of range, user names, a query, a
// fragment, blanks or control characters.
[[nodiscard]] absl::StatusOr<EndpointUrl> ParseEndpointUrl(std::string_view url);

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_ENDPOINT_CONFIG_H_
