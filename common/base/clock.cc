#include "common/base/clock.h"

#include <time.h>

namespace kernelcast {
namespace {

int64_t ReadNs(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

class RealClock final : public Clock {
 public:
  int64_t MonotonicNs() const override { return ReadNs(CLOCK_MONOTONIC); }
  int64_t WallNs() const override { return ReadNs(CLOCK_REALTIME); }
};

}  // namespace

const Clock& Clock::Real() {
  // Leaked, because destructors of static objects may still read it.
  static const Clock* const clock = new RealClock;
  return *clock;
}

}  // namespace kernelcast
