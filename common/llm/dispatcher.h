#ifndef KERNELCAST_COMMON_LLM_DISPATCHER_H_
#define KERNELCAST_COMMON_LLM_DISPATCHER_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/llm/chat.h"
#include "common/llm/endpoint_config.h"
#include "common/llm/endpoint_pool.h"
#include "common/llm/response_reader.h"
#include "common/llm/retry_policy.h"
#include "common/llm/stats.h"
#include "common/llm/stats_board.h"
#include "common/llm/transport.h"

namespace kernelcast::llm {

// Decides which request is sent to which endpoint and when, and what its outcome is: queue,
// retries, hedges, timeouts. EndpointPool knows the endpoints. Uses the network through Transport
// and time through Clock. Used from one thread.
//
// Transport callbacks only record what happened. Step acts on it, and runs the callbacks of calls
// last, when the state is consistent.
class Dispatcher {
 public:
  using Done = std::function<void(ChatOutcome)>;

  // All arguments must outlive this object; `observer` may be null. The configuration must be
  // valid.
  Dispatcher(const LlmConfig& config, Transport& transport, const Clock& clock, Random random,
             StatsBoard& stats, LlmObserver* observer);
  // Drops pending calls without callbacks. Call CancelAll and Step first.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // The board has admitted the call with `bytes`. `id` must be new.
  void Submit(uint64_t id, ChatRequest request, Done done, int64_t submitted_ns, int64_t bytes);
  void Cancel(uint64_t id);
  void CancelAll();

  // Handles transport events and due timers, then runs the callbacks.
  void Step();
  // When Step must run even if nothing happens. INT64_MAX: never.
  int64_t NextWakeNs() const;

 private:
  struct Call;
  struct Attempt;

  // An endpoint for the call, or -1. Prefers endpoints other than `other_than`.
  int Choose(const Call& call, int other_than) const;
  // Sends what can be sent, and ends calls that cannot succeed.
  void Pump();
  // Why a queued call cannot succeed, or kNone.
  ErrorKind WhyHopeless(const Call& call) const;
  void EndHopeless();

  void Send(Call& call, int endpoint, bool hedge);
  void Enqueue(Call& call);
  void Unqueue(Call& call);
  void SetTimer(Call& call, int64_t at_ns);
  int64_t DueNs(Call& call);
  void OnTimer(Call& call);
  void TryHedge(Call& call);

  void OnTouched(Attempt& attempt);
  void OnFirstToken(Attempt& attempt);
  void OnAnswer(Attempt& attempt);
  void OnFailure(Attempt& attempt, ChatError error, bool retry_is_useless);
  // Releases the attempt's slot and reports its result to limit, breaker and statistics.
  void Close(Attempt& attempt, ErrorKind result);
  void CancelAttempt(Attempt& attempt, ErrorKind result);
  void Retire(Attempt& attempt);
  void RetryOrEnd(Call& call, bool retry_is_useless);
  void End(Call& call, ChatError error);
  void Finish(Call& call, ChatOutcome outcome);

  const LlmConfig& config_;
  Transport& transport_;
  const Clock& clock_;
  const Random random_;
  StatsBoard& stats_;
  LlmObserver* const observer_;

  int64_t now_ns_ = 0;  // time of the current call into this object
  EndpointPool endpoints_;
  RetryBudget budget_;
  std::unordered_map<uint64_t, std::unique_ptr<Call>> calls_;
  std::list<Call*> queue_;
  bool look_for_hopeless_ = false;
  std::multimap<int64_t, Call*> timers_;
  // Attempts with transport events since the last Step.
  std::vector<Attempt*> touched_;
  // Kept until the end of Step, when nothing points to them any more.
  std::vector<std::unique_ptr<Attempt>> retired_attempts_;
  // Callbacks of calls, for the end of Step.
  std::vector<std::function<void()>> notices_;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_DISPATCHER_H_
