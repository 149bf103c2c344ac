#ifndef KERNELCAST_COMMON_BASE_AWAKE_TIME_H_
#define KERNELCAST_COMMON_BASE_AWAKE_TIME_H_

#include <algorithm>
#include <cstdint>

#include "common/base/clock.h"

namespace kernelcast {

// Measures how long a polling loop has waited, without pauses of this process. A poll that comes
// much later than planned means that the process was paused, such as with its virtual machine. At
// most `longest_gap_ns` of such a gap count. Not thread-safe.
class AwakeTime {
 public:
  explicit AwakeTime(const Clock& clock = Clock::Real(), int64_t longest_gap_ns = 200'000'000)
      : clock_(clock), longest_gap_ns_(longest_gap_ns), last_ns_(clock.MonotonicNs()) {}

  // Returns the time passed since construction, without what was lost between two looks.
  int64_t Look() {
    const int64_t now_ns = clock_.MonotonicNs();
    passed_ns_ += std::min(now_ns - last_ns_, longest_gap_ns_);
    last_ns_ = now_ns;
    return passed_ns_;
  }

 private:
  const Clock& clock_;
  const int64_t longest_gap_ns_;
  int64_t last_ns_;
  int64_t passed_ns_ = 0;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_AWAKE_TIME_H_
