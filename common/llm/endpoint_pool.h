#ifndef KERNELCAST_COMMON_LLM_ENDPOINT_POOL_H_
#define KERNELCAST_COMMON_LLM_ENDPOINT_POOL_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "common/llm/aimd_limit.h"
#include "common/llm/chat.h"
#include "common/llm/circuit_breaker.h"
#include "common/llm/endpoint_config.h"
#include "common/llm/latency_tracker.h"
#include "common/llm/retry_policy.h"
#include "common/llm/stats.h"
#include "common/llm/stats_board.h"

namespace kernelcast::llm {

// The state of an endpoint.
struct EndpointState {
  EndpointState(int number, const EndpointConfig& configured,
                const CircuitBreaker::Options& breaker_options)
      : index(number),
        config(configured),
        limit(configured.initial_concurrency, configured.max_concurrency),
        breaker(breaker_options) {}

  const int index;
  const EndpointConfig& config;
  AimdLimit limit;
  CircuitBreaker breaker;
  LatencyTracker first_tokens;
  int in_flight = 0;
  int64_t paused_until_ns = 0;  // as the endpoint requested
};

// The endpoints: how many attempts each has room for, which of them gets the next one, and what the
// results of attempts say about it. Times are those of the caller's clock. Not thread-safe.
class EndpointPool {
 public:
  // All arguments must outlive the pool; `observer` may be null.
  EndpointPool(const LlmConfig& config, const Random& random, StatsBoard& stats,
               LlmObserver* observer);

  EndpointState& at(int index) { return *endpoints_[index]; }
  EndpointRef Ref(int index, std::string_view model) const {
    return {index, endpoints_[index]->config.name, model};
  }

  // Whether some endpoint has room for one more attempt.
  bool HasRoom(int64_t now_ns) const;
  // When an endpoint that is paused or down may have room again. INT64_MAX: never.
  int64_t NextRoomNs(int64_t now_ns) const;

  struct Wish {
    int preferred = -1;
    uint64_t excluded = 0;  // bit set of endpoints
    int other_than = -1;    // the last resort
  };
  // An endpoint with room, or -1.
  int Choose(const Wish& wish, int64_t now_ns) const;
  // Whether one that is not excluded can be asked instead of `index`.
  bool HasAnother(int index, uint64_t excluded, int64_t now_ns) const;

  struct Need {
    uint64_t excluded = 0;
    bool wait_for_recovery = false;
    int64_t deadline_ns = 0;
  };
  // Why no endpoint can serve a call: kCircuitOpen, kRateLimited, or kNone.
  ErrorKind WhyHopeless(const Need& need, int64_t now_ns) const;
  // Shortest time until an endpoint that is hopeless for this reason is no longer so.
  int64_t WaitNs(ErrorKind why, int64_t now_ns) const;

  // An attempt in progress.
  struct Slot {
    int endpoint = 0;
    bool probe = false;  // probe of the breaker
    int64_t limit_epoch = 0;
    int64_t sent_ns = 0;
  };
  // Takes a slot of an endpoint. Report the concurrency when the statistics are up to date.
  Slot Start(int index, int64_t now_ns);
  // Gives it back with the attempt's result. `unheard`: the endpoint has sent nothing until the
  // caller's deadline.
  void Close(const Slot& slot, ErrorKind result, bool unheard, int64_t now_ns);
  void Pause(int index, int64_t until_ns);
  void ReportConcurrency(int index);

  // Whether an endpoint went down or was paused since ClearLoss.
  bool lost() const { return lost_; }
  void ClearLoss() { lost_ = false; }

 private:
  bool Admits(const EndpointState& endpoint, int64_t now_ns) const;
  static bool Excludes(uint64_t excluded, int index) { return ((excluded >> index) & 1) != 0; }
  void ReportBreaker(EndpointState& endpoint, BreakerState before);

  const Random& random_;
  StatsBoard& stats_;
  LlmObserver* const observer_;
  std::vector<std::unique_ptr<EndpointState>> endpoints_;
  bool lost_ = false;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_ENDPOINT_POOL_H_
