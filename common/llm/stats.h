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
  // Attempts by result. kNone counts answers; kCancelled counts those ended by the caller or by a
  // faster twin.
  std::array<int64_t, kErrorKindCount> attempts_by_result{};
  int64_t attempts_started = 0;
  int64_t hedges = 0;
  int64_t hedges_won = 0;
  // Retries, by the error of the failed attempt.
  std::array<int64_t, kErrorKindCount> retries_by_reason{};

  int64_t prompt_tokens = 0;
  int64_t cached_prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t answers_without_usage = 0;
  double cost = 0;

  int in_flight = 0;
  int concurrency_limit = 0;
  BreakerState breaker = BreakerState::kClosed;
  int64_t breaker_opened = 0;  // number of times
  int64_t breaker_closed = 0;  // number of times, after it had been open
};

struct ClientStats {
  std::vector<EndpointStats> endpoints;  // in the order of the configuration

  // calls_submitted = calls_pending + the sum of calls_by_result.
  int64_t calls_submitted = 0;
  int64_t calls_overloaded = 0;  // refused by Submit; counted only here
  int64_t calls_pending = 0;
  int64_t calls_queued = 0;  // pending calls without an attempt in flight
  int64_t pending_bytes = 0;
  std::array<int64_t, kErrorKindCount> calls_by_result{};
  // Retries and hedges denied by the retry budget.
  int64_t retries_denied = 0;
};

// The parts of ClientStats that are not sums over endpoints or results.
struct ClientLoad {
  int64_t calls_overloaded = 0;
  int64_t calls_pending = 0;
  int64_t calls_queued = 0;
  int64_t pending_bytes = 0;
  int64_t retries_denied = 0;
};

// Receives events for metrics. Called on the client's thread, without locks. Must not block or
// throw. `endpoint` is an index into the configuration. Override the methods you need.
class LlmObserver {
 public:
  virtual ~LlmObserver() = default;

  // An attempt ended. kNone: with an answer.
  virtual void OnAttempt(int /*endpoint*/, ErrorKind /*result*/, int64_t /*latency_ns*/) {}
  virtual void OnFirstToken(int /*endpoint*/, int64_t /*since_sent_ns*/) {}
  // Another attempt will be made because of `reason`.
  virtual void OnRetry(int /*endpoint*/, ErrorKind /*reason*/) {}
  virtual void OnHedge(int /*endpoint*/) {}
  // A hedge produced a token before the original attempt.
  virtual void OnHedgeWon(int /*endpoint*/) {}
  // Called per answer. usage.known is false if the endpoint reported none.
  virtual void OnUsage(int /*endpoint*/, const TokenUsage& /*usage*/, double /*cost*/) {}
  virtual void OnBreaker(int /*endpoint*/, BreakerState /*state*/) {}
  // At least one of the two changed.
  virtual void OnConcurrency(int /*endpoint*/, int /*in_flight*/, int /*limit*/) {}
  // A call ended. Called before its callback.
  virtual void OnCall(const ChatOutcome& /*outcome*/) {}
  // Called after every change, before the callbacks that result from it.
  virtual void OnLoad(const ClientLoad& /*load*/) {}
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_STATS_H_
