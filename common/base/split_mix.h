#ifndef KERNELCAST_COMMON_BASE_SPLIT_MIX_H_
#define KERNELCAST_COMMON_BASE_SPLIT_MIX_H_

#include <cstdint>

namespace kernelcast {

// SplitMix64 (Steele, Lea and Flood 2014). It gives the same numbers with every standard library,
// unlike the distributions of <random>. It must not change, because recorded forecasts, searches
// and inputs of kernels depend on it.

// The finalizer: every input bit affects all output bits.
constexpr uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The next number. Advances the state, which may be any seed.
constexpr uint64_t SplitMix64(uint64_t& state) { return MixBits(state += 0x9e3779b97f4a7c15); }

// The next number in [0, 1).
constexpr double UnitInterval(uint64_t& state) {
  return static_cast<double>(SplitMix64(state) >> 11) * 0x1.0p-53;
}

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_SPLIT_MIX_H_
