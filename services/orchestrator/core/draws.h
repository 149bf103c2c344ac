#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DRAWS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DRAWS_H_

#include <cstddef>
#include <cstdint>

namespace kernelcast::orchestrator {

// Random numbers that follow from a seed alone, on every platform. `state` is advanced.

inline uint64_t SplitMix64(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// In [0, 1).
inline double UnitInterval(uint64_t& state) {
  return static_cast<double>(SplitMix64(state) >> 11) * 0x1.0p-53;
}

// In [0, bound).
inline size_t Below(uint64_t& state, size_t bound) {
  return static_cast<size_t>(SplitMix64(state) % bound);
}

// The state for the n-th draw of a search.
inline uint64_t DrawState(uint64_t seed, uint64_t n) {
  return seed * 0x2545f4914f6cdd1dull + n + 1;
}

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DRAWS_H_
