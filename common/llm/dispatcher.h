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
#include "common/llm/aimd_limit.h"
#include "common/llm/chat.h"
#include "common/llm/circuit_breaker.h"
#include "common/llm/endpoint_config.h"
#include "common/llm/latency_tracker.h"
#include "common/llm/response_reader.h"
#include "common/llm/retry_policy.h"
#include "common/llm/stats.h"
#include "common/llm/stats_board.h"
#include "common/llm/transport.h"

namespace kernelcast::llm {

// Decides what is sent where and when, and what an outcome is: queue, choice of endpoint, limits,
// retries, hedges, breakers, timeouts. Knows the network as a Transport and time as a Clock. Used
// from one thread.
//
// Nothing happens inside the transport's callbacks but taking notes; Step acts on them, and makes
// the callbacks of calls last, when the state is whole.
class Dispatcher {
 public:
  using Done = std::function<void(ChatOutcome)>;

  // All are borrowed; `observer` may be null. The configuration has been validated.
  Dispatcher(const LlmConfig& config, Transport& transport, const Clock& clock, Random random,
             StatsBoard& stats, LlmObserver* observer);
  // What is under way is dropped without a callback: CancelAll and Step come first.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // The board has admitted the call, with `bytes`. `id` is new.
  void Submit(uint64_t id, ChatRequest request, Done done, int64_t submitted_ns, int64_t bytes);
  void Cancel(uint64_t id);
  void CancelAll();

  // Acts on what the transport told and on what is due, then makes the callbacks.
  void Step();
  // When Step has something to do even if nothing happens; INT64_MAX: never.
  int64_t NextWakeNs() const;

 private:
  struct Call;
  struct Attempt;
  struct Endpoint;
  struct Notice;

  // An endpoint's room for one more attempt of a call.
  bool Admits(const Endpoint& endpoint) const;
  // An endpoint for the call, or -1. `other_than`: better another one, if there is one.
  int Choose(const Call& call, int other_than);
  // Sends what can be sent; ends what waits in vain.
  void Pump();
  // Why a queued call need not wait, or kNone.
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
  // Frees the attempt's place; what it told goes to limit, breaker and figures.
  void Close(Attempt& attempt, ErrorKind result);
  void CancelAttempt(Attempt& attempt, ErrorKind result);
  void Retire(Attempt& attempt);
  void RetryOrEnd(Call& call, bool retry_is_useless);
  void End(Call& call, ChatError error);
  void Finish(Call& call, ChatOutcome outcome);
  void ReportBreaker(Endpoint& endpoint, BreakerState before);
  void ReportConcurrency(Endpoint& endpoint);
  EndpointRef Ref(int endpoint, std::string_view model) const;

  const LlmConfig& config_;
  Transport& transport_;
  const Clock& clock_;
  const Random random_;
  StatsBoard& stats_;
  LlmObserver* const observer_;

  int64_t now_ns_ = 0;  // of the current entry
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  RetryBudget budget_;
  std::unordered_map<uint64_t, std::unique_ptr<Call>> calls_;
  std::list<Call*> queue_;
  bool look_for_hopeless_ = false;
  std::multimap<int64_t, Call*> timers_;
  // Attempts that the transport told something about since the last Step.
  std::vector<Attempt*> touched_;
  // Kept until nothing points at them any more: the end of Step.
  std::vector<std::unique_ptr<Attempt>> retired_attempts_;
  std::vector<Notice> notices_;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_DISPATCHER_H_
