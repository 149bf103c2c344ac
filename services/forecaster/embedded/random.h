#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_RANDOM_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_RANDOM_H_

#include <cstdint>
#include <string_view>

#include "common/base/fnv.h"
#include "common/base/split_mix.h"

namespace kernelcast::forecaster {

// SplitMix64. It must not change, because recorded forecasts must stay reproducible. The worker's
// generator, from which inputs of kernels are drawn, is another one for the same reason.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() { return SplitMix64(state_); }
  // In [0, bound). The bias is below 2^-32 for 32-bit bounds.
  uint64_t Below(uint64_t bound) { return (Next() >> 32) * bound >> 32; }
  // In [0, 1).
  double Uniform() { return UnitInterval(state_); }

 private:
  uint64_t state_;
};

// Derives a named seed from a seed.
inline uint64_t DeriveSeed(uint64_t seed, std::string_view name, uint64_t number) {
  uint64_t state = FnvHash(name, kFnvBasis ^ seed) ^ (number * 0x9e3779b97f4a7c15u);
  return SplitMix64(state);
}

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_RANDOM_H_
