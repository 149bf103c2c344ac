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

// Names a call of one client; never used twice.
using CallId = uint64_t;

// Asks OpenAI-compatible endpoints for chat completions: streamed, spread over the configured
// endpoints, as many at once as each of them bears, with retries, one hedge and a circuit breaker
// within a budget. docs/llm.md says how.
//
//   queued --room at an endpoint--> sent --answer, or an error that stays--> done
//     ^                              |
//     +--- backoff, Retry-After <----+ an error that may pass, within budget and deadline
//   any state --Cancel, stop token, deadline, Shutdown--> done, the stream closed at once
//
// One thread of its own does all the work and makes all the callbacks. Thread-safe.
class LlmClient {
 public:
  // The outcome is the callee's to keep. Called exactly once for each accepted call, on the
  // client's thread, under no lock: it must not block or throw, and may call Submit, Cancel and
  // Stats, but neither Shutdown nor the destructor.
  using Done = std::function<void(ChatOutcome)>;

  // `observer`, when not null, and `clock` outlive the client. INVALID_ARGUMENT: the configuration.
  // UNAVAILABLE: no descriptors or threads to be had.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LlmClient>> Create(
      LlmConfig config, LlmObserver* observer = nullptr, const Clock& clock = Clock::Real());
  // As Shutdown.
  ~LlmClient();
  LlmClient(const LlmClient&) = delete;
  LlmClient& operator=(const LlmClient&) = delete;

  // Takes a call, without blocking. When this fails, `done` is never called.
  // RESOURCE_EXHAUSTED: max_pending_calls or max_pending_bytes are reached; try later.
  // INVALID_ARGUMENT: no prompt. FAILED_PRECONDITION: shut down.
  [[nodiscard]] absl::StatusOr<CallId> Submit(ChatRequest request, Done done);

  // Ends a call with kCancelled unless it has ended, and closes its streams. Returns at once; the
  // callback follows. An unknown or ended call is left alone.
  void Cancel(CallId call);

  // Ends every call with kCancelled, closes all connections and joins the thread. After it returns
  // no callback runs. Again: does nothing.
  void Shutdown();

  // As of the last thing that happened; a call's figures are in before its callback is made.
  ClientStats Stats() const;

  // In the order of the configuration, without keys.
  const std::vector<EndpointConfig>& endpoints() const;

 private:
  class Impl;
  explicit LlmClient(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// Asks an endpoint for its models, for `doctor` and the start of a service; blocks for
// `timeout_ns` at most. One line each:
// UNAVAILABLE: cannot be reached, or answers with 5xx. UNAUTHENTICATED: the key is missing or
// wrong. NOT_FOUND: the endpoint lists its models and the configured one is not among them. An
// endpoint that answers but keeps no list is taken for good.
[[nodiscard]] absl::Status CheckEndpoint(const EndpointConfig& endpoint, int64_t timeout_ns);

// The models that an endpoint lists, each as one line; none where it keeps no list. Blocks and
// fails as CheckEndpoint; the configured model is not looked at.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ListModels(const EndpointConfig& endpoint,
                                                                  int64_t timeout_ns);

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_CLIENT_H_
