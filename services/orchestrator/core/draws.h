#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DRAWS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DRAWS_H_

#include <cstddef>
#include <cstdint>

#include "common/base/split_mix.h"

namespace kernelcast::orchestrator {

// Random numbers of searches. They depend only on the seed.

// In [0, bound). Advances the state.
inline size_t Below(uint64_t& state, size_t bound) {
  return static_cast<size_t>(SplitMix64(state) % bound);
}

// The state for the n-th draw of a search.
inline uint64_t DrawState(uint64_t seed, uint64_t n) {
  return seed * 0x2545f4914f6cdd1dull + n + 1;
}

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_DRAWS_H_
