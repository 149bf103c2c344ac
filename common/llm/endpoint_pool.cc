#include "common/llm/endpoint_pool.h"

#include <algorithm>
#include <limits>

namespace kernelcast::llm {
namespace {

CircuitBreaker::Options BreakerOptions(const LlmConfig& config) {
  CircuitBreaker::Options options;
  options.consecutive_failures = config.breaker_consecutive_failures;
  options.failure_ratio = config.breaker_failure_ratio;
  options.min_samples = config.breaker_min_samples;
  options.open_ns = config.breaker_open_ns;
  options.open_cap_ns = std::max(config.breaker_open_cap_ns, config.breaker_open_ns);
  return options;
}

}  // namespace

EndpointPool::EndpointPool(const LlmConfig& config, const Random& random, StatsBoard& stats,
                           LlmObserver* observer)
    : random_(random), stats_(stats), observer_(observer) {
  for (const EndpointConfig& endpoint : config.endpoints) {
    const int index = static_cast<int>(endpoints_.size());
    endpoints_.push_back(std::make_unique<EndpointState>(index, endpoint, BreakerOptions(config)));
    ReportConcurrency(index);
  }
}

bool EndpointPool::Admits(const EndpointState& endpoint, int64_t now_ns) const {
  return endpoint.in_flight < endpoint.limit.limit() && endpoint.paused_until_ns <= now_ns &&
         endpoint.breaker.Allows(now_ns);
}

bool EndpointPool::HasRoom(int64_t now_ns) const {
  return std::any_of(endpoints_.begin(), endpoints_.end(),
                     [&](const auto& endpoint) { return Admits(*endpoint, now_ns); });
}

int64_t EndpointPool::NextRoomNs(int64_t now_ns) const {
  int64_t next_ns = std::numeric_limits<int64_t>::max();
  for (const std::unique_ptr<EndpointState>& endpoint : endpoints_) {
    if (endpoint->in_flight >= endpoint->limit.limit()) continue;
    if (endpoint->breaker.state() == BreakerState::kHalfOpen) continue;
    int64_t opens_ns = endpoint->paused_until_ns;
    if (endpoint->breaker.state() == BreakerState::kOpen) {
      opens_ns = std::max(opens_ns, endpoint->breaker.open_until_ns());
    }
    // An endpoint that would admit now has nothing to do in the queue.
    if (opens_ns > now_ns) next_ns = std::min(next_ns, opens_ns);
  }
  return next_ns;
}

int EndpointPool::Choose(const Wish& wish, int64_t now_ns) const {
  const auto& [preferred, excluded, other_than] = wish;
  if (preferred >= 0 && preferred < static_cast<int>(endpoints_.size()) &&
      preferred != other_than && !Excludes(excluded, preferred) &&
      Admits(*endpoints_[preferred], now_ns)) {
    return preferred;
  }
  double total = 0;
  int only = -1;
  for (const std::unique_ptr<EndpointState>& endpoint : endpoints_) {
    if (Excludes(excluded, endpoint->index) || !Admits(*endpoint, now_ns)) continue;
    if (endpoint->index == other_than) continue;
    total += endpoint->config.weight;
    only = endpoint->index;
  }
  if (only < 0) {
    const bool last_resort = other_than >= 0 && !Excludes(excluded, other_than) &&
                             Admits(*endpoints_[other_than], now_ns);
    return last_resort ? other_than : -1;
  }
  if (endpoints_.size() == 1) return only;
  double drawn = random_() * total;
  for (const std::unique_ptr<EndpointState>& endpoint : endpoints_) {
    if (Excludes(excluded, endpoint->index) || endpoint->index == other_than ||
        !Admits(*endpoint, now_ns)) {
      continue;
    }
    drawn -= endpoint->config.weight;
    if (drawn < 0) return endpoint->index;
  }
  return only;
}

bool EndpointPool::HasAnother(int index, uint64_t excluded, int64_t now_ns) const {
  return std::any_of(endpoints_.begin(), endpoints_.end(), [&](const auto& other) {
    return other->index != index && !Excludes(excluded, other->index) &&
           other->paused_until_ns <= now_ns &&
           (other->breaker.state() == BreakerState::kClosed || other->breaker.Allows(now_ns));
  });
}

ErrorKind EndpointPool::WhyHopeless(const Need& need, int64_t now_ns) const {
  bool paused = false;
  for (const std::unique_ptr<EndpointState>& endpoint : endpoints_) {
    if (Excludes(need.excluded, endpoint->index)) continue;
    const bool down =
        endpoint->breaker.state() != BreakerState::kClosed && !endpoint->breaker.Allows(now_ns);
    if (down) {
      // A call with wait_for_recovery waits if a trial is possible before its deadline.
      if (need.wait_for_recovery && (endpoint->breaker.state() == BreakerState::kHalfOpen ||
                                     endpoint->breaker.open_until_ns() < need.deadline_ns)) {
        return ErrorKind::kNone;
      }
      continue;
    }
    if (endpoint->paused_until_ns < need.deadline_ns) return ErrorKind::kNone;
    paused = true;
  }
  return paused ? ErrorKind::kRateLimited : ErrorKind::kCircuitOpen;
}

int64_t EndpointPool::WaitNs(ErrorKind why, int64_t now_ns) const {
  int64_t wait_ns = std::numeric_limits<int64_t>::max();
  for (const std::unique_ptr<EndpointState>& endpoint : endpoints_) {
    const int64_t until_ns = why == ErrorKind::kCircuitOpen ? endpoint->breaker.open_until_ns()
                                                            : endpoint->paused_until_ns;
    wait_ns = std::min(wait_ns, std::max<int64_t>(until_ns - now_ns, 0));
  }
  return wait_ns;
}

EndpointPool::Slot EndpointPool::Start(int index, int64_t now_ns) {
  EndpointState& endpoint = *endpoints_[index];
  Slot slot;
  slot.endpoint = index;
  slot.limit_epoch = endpoint.limit.epoch();
  slot.sent_ns = now_ns;
  const BreakerState before = endpoint.breaker.state();
  slot.probe = endpoint.breaker.OnStart();
  ReportBreaker(endpoint, before);
  ++endpoint.in_flight;
  return slot;
}

void EndpointPool::Close(const Slot& slot, ErrorKind result, bool unheard, int64_t now_ns) {
  EndpointState& endpoint = *endpoints_[slot.endpoint];
  const BreakerState before = endpoint.breaker.state();
  if (IsEndpointFault(result)) {
    endpoint.breaker.Trip(now_ns);
  } else if (IsFailure(result) || unheard) {
    endpoint.breaker.OnFailure(now_ns, slot.probe);
  } else if (result == ErrorKind::kCancelled || result == ErrorKind::kDeadlineExceeded) {
    endpoint.breaker.OnAbandoned(slot.probe);
  } else {
    endpoint.breaker.OnSuccess(now_ns, slot.probe);
  }
  if (IsOverload(result)) {
    endpoint.limit.OnOverload(slot.limit_epoch);
  } else if (result == ErrorKind::kFirstByteTimeout) {
    endpoint.limit.OnTimeout(slot.limit_epoch);
  } else if (result == ErrorKind::kNone) {
    endpoint.limit.OnSuccess(endpoint.in_flight);
  }
  --endpoint.in_flight;
  stats_.Update([&](ClientStats& stats) {
    ++stats.endpoints[endpoint.index].attempts_by_result[static_cast<size_t>(result)];
  });
  if (observer_ != nullptr) observer_->OnAttempt(endpoint.index, result, now_ns - slot.sent_ns);
  ReportBreaker(endpoint, before);
  ReportConcurrency(endpoint.index);
}

void EndpointPool::Pause(int index, int64_t until_ns) {
  EndpointState& endpoint = *endpoints_[index];
  endpoint.paused_until_ns = std::max(endpoint.paused_until_ns, until_ns);
  lost_ = true;
}

void EndpointPool::ReportBreaker(EndpointState& endpoint, BreakerState before) {
  const BreakerState after = endpoint.breaker.state();
  if (after == before) return;
  if (after != BreakerState::kClosed) lost_ = true;
  stats_.Update([&](ClientStats& stats) {
    EndpointStats& figures = stats.endpoints[endpoint.index];
    figures.breaker = after;
    if (after == BreakerState::kOpen) ++figures.breaker_opened;
    if (after == BreakerState::kClosed) ++figures.breaker_closed;
  });
  if (observer_ != nullptr) observer_->OnBreaker(endpoint.index, after);
}

void EndpointPool::ReportConcurrency(int index) {
  const EndpointState& endpoint = *endpoints_[index];
  const int limit = endpoint.limit.limit();
  stats_.Update([&](ClientStats& stats) {
    stats.endpoints[index].in_flight = endpoint.in_flight;
    stats.endpoints[index].concurrency_limit = limit;
  });
  if (observer_ != nullptr) observer_->OnConcurrency(index, endpoint.in_flight, limit);
}

}  // namespace kernelcast::llm
