#ifndef KERNELCAST_COMMON_LLM_STATS_H_
#define KERNELCAST_COMMON_LLM_STATS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/llm/chat.h"

namespace kernelcast::llm {

enum class BreakerState { kClosed, kOpen, kHalfOpen };
std::string_view BreakerStateName(BreakerState state);  // "closed", "open", "half_open"

struct EndpointStats {
  std::string name;
  // Attempts by how they ended; kNone counts answers, kCancelled those that the caller or a faster
  // twin ended.
  std::array<int64_t, kErrorKindCount> attempts_by_result{};
  int64_t attempts_started = 0;
  int64_t hedges = 0;
  int64_t hedges_won = 0;
  // Attempts after a failed one, by what had failed.
  std::array<int64_t, kErrorKindCount> retries_by_reason{};

  int64_t prompt_tokens = 0;
  int64_t cached_prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t answers_without_usage = 0;
  double cost = 0;

  int in_flight = 0;
  int concurrency_limit = 0;
  BreakerState breaker = BreakerState::kClosed;
  int64_t breaker_opened = 0;  // times
  int64_t breaker_closed = 0;  // times, after it had been open
};

struct ClientStats {
  std::vector<EndpointStats> endpoints;  // in the order of the configuration

  // Calls: submitted = pending + the sum of calls_by_result.
  int64_t calls_submitted = 0;
  int64_t calls_overloaded = 0;  // refused by Submit, and not counted elsewhere
  int64_t calls_pending = 0;
  int64_t calls_queued = 0;  // of the pending, those without an attempt in flight
  int64_t pending_bytes = 0;
  std::array<int64_t, kErrorKindCount> calls_by_result{};
  // Retries and hedges that the budget did not allow.
  int64_t retries_denied = 0;
};

// What of ClientStats is no sum over endpoints or results.
struct ClientLoad {
  int64_t calls_overloaded = 0;
  int64_t calls_pending = 0;
  int64_t calls_queued = 0;
  int64_t pending_bytes = 0;
  int64_t retries_denied = 0;
};

// Told of what happens, for metrics. Called on the client's thread, under no lock; must not block
// and not throw. `endpoint` is an index into the configuration. Override what is wanted.
class LlmObserver {
 public:
  virtual ~LlmObserver() = default;

  // An attempt ended; kNone: with an answer.
  virtual void OnAttempt(int /*endpoint*/, ErrorKind /*result*/, int64_t /*latency_ns*/) {}
  virtual void OnFirstToken(int /*endpoint*/, int64_t /*since_sent_ns*/) {}
  // Another attempt will be made because of `reason`.
  virtual void OnRetry(int /*endpoint*/, ErrorKind /*reason*/) {}
  virtual void OnHedge(int /*endpoint*/) {}
  // A hedge spoke before the attempt that it was sent beside.
  virtual void OnHedgeWon(int /*endpoint*/) {}
  // Of each answer; usage.known is false where the endpoint told none.
  virtual void OnUsage(int /*endpoint*/, const TokenUsage& /*usage*/, double /*cost*/) {}
  virtual void OnBreaker(int /*endpoint*/, BreakerState /*state*/) {}
  // Either has changed.
  virtual void OnConcurrency(int /*endpoint*/, int /*in_flight*/, int /*limit*/) {}
  // A call ended; called before its callback.
  virtual void OnCall(const ChatOutcome& /*outcome*/) {}
  // Whenever something has happened, before the callbacks that come of it.
  virtual void OnLoad(const ClientLoad& /*load*/) {}
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_STATS_H_
