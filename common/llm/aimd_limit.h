#ifndef KERNELCAST_COMMON_LLM_AIMD_LIMIT_H_
#define KERNELCAST_COMMON_LLM_AIMD_LIMIT_H_

#include <algorithm>
#include <cstdint>

namespace kernelcast::llm {

// How many requests an endpoint is given at once: doubled with every round of successes until it
// first says that it is too much, then one more a round, and 0.7 of it whenever it says so again.
// Between 1 and `max`. Not thread-safe.
class AimdLimit {
 public:
  AimdLimit(int initial, int max) : max_(std::max(max, 1)), limit_(std::clamp(initial, 1, max_)) {}

  int limit() const { return static_cast<int>(limit_); }
  // Kept with each request that is sent.
  int64_t epoch() const { return epoch_; }

  // A success while `in_flight` requests, itself included, were out. A limit that is not used is
  // not raised, for nothing is learnt about it.
  void OnSuccess(int in_flight) {
    timeout_share_ -= timeout_share_ / kTimeoutWindow;
    if (in_flight * 2 < limit()) return;
    limit_ = std::min<double>(max_, limit_ + (slow_start_ ? 1.0 : 1.0 / limit_));
  }
  // A request sent in `epoch` was too much. Those sent before the last cut say nothing new.
  void OnOverload(int64_t epoch) {
    if (epoch != epoch_) return;
    ++epoch_;
    slow_start_ = false;
    limit_ = std::max(1.0, limit_ * kCut);
    timeout_share_ = 0;
  }
  // A request sent in `epoch` got no answer in time. One that hangs is an accident, of which
  // nothing follows; where more than a tenth do, there are too many of them.
  void OnTimeout(int64_t epoch) {
    timeout_share_ += (1 - timeout_share_) / kTimeoutWindow;
    if (timeout_share_ > kMaxTimeoutShare) OnOverload(epoch);
  }

 private:
  static constexpr double kCut = 0.7;
  static constexpr double kTimeoutWindow = 32;
  static constexpr double kMaxTimeoutShare = 0.1;

  const int max_;
  double limit_;
  bool slow_start_ = true;
  int64_t epoch_ = 0;
  double timeout_share_ = 0;  // of the last requests, with exponential weights
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_AIMD_LIMIT_H_
