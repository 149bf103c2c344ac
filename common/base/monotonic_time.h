#ifndef KERNELCAST_COMMON_BASE_MONOTONIC_TIME_H_
#define KERNELCAST_COMMON_BASE_MONOTONIC_TIME_H_

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace kernelcast {

// The current time on the monotonic clock, for intervals, because the wall clock may be set back.
// The origin is arbitrary; never compare it with absl::Now().
inline absl::Time MonotonicNow() { return absl::FromUnixNanos(Clock::Real().MonotonicNs()); }

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_MONOTONIC_TIME_H_
