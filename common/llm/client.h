#ifndef KERNELCAST_COMMON_LLM_CLIENT_H_
#define KERNELCAST_COMMON_LLM_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/llm/chat.h"
#include "common/llm/endpoint_config.h"
#include "common/llm/stats.h"

namespace kernelcast::llm {

// Id of a call of one client. Never reused.
using CallId = uint64_t;

// Requests chat completions from OpenAI-compatible endpoints. Streams answers, spreads requests
// over the configured endpoints, limits concurrency per endpoint, and uses retries, one hedge per
// call and circuit breakers within a retry budget. See docs/howto/llm.md.
//
//   queued --room at an endpoint--> sent --answer or permanent error--> done
//     ^                              |
//     +--- backoff, Retry-After <----+ transient error, within budget and deadline
//   any state --Cancel, stop token, deadline, Shutdown--> done, the stream is closed at once
//
// A single thread of the client does all the work and runs all callbacks. Thread-safe.
class LlmClient {
 public:
  // Receives the outcome. Called exactly once per accepted call, on the client's thread, without
  // locks. Must not block or throw. May call Submit, Cancel and Stats, but not Shutdown or the
  // destructor.
  using Done = std::function<void(ChatOutcome)>;

  // `observer` (may be null) and `clock` must outlive the client. INVALID_ARGUMENT: invalid
  // configuration. UNAVAILABLE: out of descriptors or threads.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LlmClient>> Create(
      LlmConfig config, LlmObserver* observer = nullptr, const Clock& clock = Clock::Real());
  // Calls Shutdown.
  ~LlmClient();
  LlmClient(const LlmClient&) = delete;
  LlmClient& operator=(const LlmClient&) = delete;

  // Accepts a call, without blocking. If this fails, `done` is never called. RESOURCE_EXHAUSTED:
  // max_pending_calls or max_pending_bytes is reached; try later. INVALID_ARGUMENT: no prompt.
  // FAILED_PRECONDITION: the client is shut down.
  [[nodiscard]] absl::StatusOr<CallId> Submit(ChatRequest request, Done done);

  // Ends a call with kCancelled and closes its streams. Returns at once; the callback follows.
  // Ignores calls that are unknown or have ended.
  void Cancel(CallId call);

  // Ends every call with kCancelled, closes all connections and joins the thread. No callback runs
  // after it returns. Idempotent.
  void Shutdown();

  // A snapshot. A call is counted before its callback runs.
  ClientStats Stats() const;

  // In the order of the configuration, without keys.
  const std::vector<EndpointConfig>& endpoints() const;

 private:
  class Impl;
  explicit LlmClient(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// Asks an endpoint for its models, for `doctor` and at the start of a service. Blocks for at most
// `timeout_ns`. Error messages are one line. UNAVAILABLE: the endpoint cannot be reached or answers
// with 5xx. UNAUTHENTICATED: the key is missing or wrong. NOT_FOUND: the endpoint lists its models
// and the configured one is not among them, or it answers with a web page. Returns OK if the
// endpoint answers but has no list.
[[nodiscard]] absl::Status CheckEndpoint(const EndpointConfig& endpoint, int64_t timeout_ns);

// Returns the models that an endpoint lists, each on one line. Empty if it has no list. Blocks and
// fails like CheckEndpoint, but ignores the configured model.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ListModels(const EndpointConfig& endpoint,
                                                                  int64_t timeout_ns);

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_CLIENT_H_
