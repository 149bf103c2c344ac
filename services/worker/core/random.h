#ifndef KERNELCAST_SERVICES_WORKER_CORE_RANDOM_H_
#define KERNELCAST_SERVICES_WORKER_CORE_RANDOM_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "common/base/split_mix.h"

namespace kernelcast::worker {

// xoshiro256** seeded through splitmix64. The same seed gives the same values on every machine.
// Seeds name the inputs of kernels and the order of samples, so the generator must not change. The
// forecaster has another one for the same reason: recorded forecasts must stay reproducible.
class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) word = SplitMix64(seed);
  }

  uint64_t Next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Returns a value in [0, bound), or 0 if bound is 0. The bias is below 2^-32 for bounds used
  // here.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }

  // Returns a value in [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  // Returns a normal value with mean 0 and standard deviation 1.
  double Normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
    const double angle = 2 * std::numbers::pi * Uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  uint64_t state_[4];
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_RANDOM_H_
