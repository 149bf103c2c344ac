#ifndef KERNELCAST_COMMON_LLM_AIMD_LIMIT_H_
#define KERNELCAST_COMMON_LLM_AIMD_LIMIT_H_

#include <algorithm>
#include <cstdint>

namespace kernelcast::llm {

// Limit of concurrent requests to an endpoint, by additive increase and multiplicative decrease.
// The limit doubles per round of successes until the first overload. After that it grows by one per
// round, and each overload multiplies it by 0.7. Always between 1 and `max`. Not thread-safe.
class AimdLimit {
 public:
  AimdLimit(int initial, int max) : max_(std::max(max, 1)), limit_(std::clamp(initial, 1, max_)) {}

  int limit() const { return static_cast<int>(limit_); }
  // Store this with each request that is sent.
  int64_t epoch() const { return epoch_; }

  // A request succeeded while `in_flight` requests, including it, were outstanding. An unused limit
  // is not raised.
  void OnSuccess(int in_flight) {
    timeout_share_ -= timeout_share_ / kTimeoutWindow;
    if (in_flight * 2 < limit()) return;
    limit_ = std::min<double>(max_, limit_ + (slow_start_ ? 1.0 : 1.0 / limit_));
  }
  // A request sent in `epoch` was refused for overload. Requests sent before the last cut are
  // ignored, because the cut already answered them.
  void OnOverload(int64_t epoch) {
    if (epoch != epoch_) return;
    ++epoch_;
    slow_start_ = false;
    limit_ = std::max(1.0, limit_ * kCut);
    timeout_share_ = 0;
  }
  // A request sent in `epoch` timed out. Single timeouts are ignored; if more than a tenth of
  // requests time out, it counts as overload.
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
  double timeout_share_ = 0;  // share among recent requests, exponentially weighted
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_AIMD_LIMIT_H_
