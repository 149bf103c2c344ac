#ifndef KERNELCAST_COMMON_LLM_LATENCY_TRACKER_H_
#define KERNELCAST_COMMON_LLM_LATENCY_TRACKER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace kernelcast::llm {

// The 95th percentile of the last 256 durations. Not thread-safe.
class LatencyTracker {
 public:
  // Below this number of samples there is no estimate.
  static constexpr size_t kMinSamples = 20;

  void Add(int64_t duration_ns) {
    samples_[next_] = duration_ns;
    next_ = (next_ + 1) % samples_.size();
    count_ = std::min(count_ + 1, samples_.size());
    ++added_;
  }

  // 0: too few samples.
  int64_t P95Ns() {
    if (count_ < kMinSamples) return 0;
    // Recomputed rarely, because sorting on every call costs more than a stale value.
    if (p95_ns_ == 0 || added_ >= kRecompute) {
      std::array<int64_t, kWindow> sorted = samples_;
      auto* const p95 = sorted.data() + (count_ * 95 - 1) / 100;
      std::nth_element(sorted.data(), p95, sorted.data() + count_);
      p95_ns_ = *p95;
      added_ = 0;
    }
    return p95_ns_;
  }

 private:
  static constexpr size_t kWindow = 256;
  static constexpr size_t kRecompute = 16;

  std::array<int64_t, kWindow> samples_{};
  size_t next_ = 0;
  size_t count_ = 0;
  size_t added_ = 0;  // since p95_ns_ was computed
  int64_t p95_ns_ = 0;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_LATENCY_TRACKER_H_
