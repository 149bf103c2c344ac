#ifndef KERNELCAST_COMMON_DOMAIN_NICHE_H_
#define KERNELCAST_COMMON_DOMAIN_NICHE_H_

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/facts.h"

namespace kernelcast {

// The kind of a candidate's kernel, from its compile facts and simulation. 0 where unknown.
struct Niche {
  // The resource that takes longest by itself. Device code: by simulation, 1 + its position among
  // the times of cuda-sim/1. Host code: 1 for memory, 2 for arithmetic in the inner loops.
  int bound = 0;
  // Device code: quarters of a multiprocessor's warps that are resident.
  int occupancy = 0;
  // Bytes of the widest accesses to global memory (device) or of vector registers (host), as a
  // power of two.
  int width = 0;
  // Threads of a block (device) or instructions of the largest inner loop (host), as a power of
  // two.
  int tile = 0;
  int launches = 0;  // at most 4

  friend auto operator<=>(const Niche&, const Niche&) = default;
};

// Facts of other schemas have one niche.
Niche NicheOf(const CompileFacts& facts);

// Niche.bound as a word, such as "dram" or "arithmetic". Empty: unknown.
std::string_view BoundName(const CompileFacts& facts);

// The niche in words, without what is unknown: "dram, 3/4 occupancy, 16 B accesses, 128 to 255
// threads, 1 launch".
std::string NicheText(const CompileFacts& facts);

// A property of a kernel that its author chooses.
struct KernelTrait {
  std::string_view name;  // "vector bytes"
  std::string value;      // "16", "yes"
  friend bool operator==(const KernelTrait&, const KernelTrait&) = default;
};

// The same names in the same order for all facts of a schema; none for schemas without niches.
std::vector<KernelTrait> TraitsOf(const CompileFacts& facts);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_NICHE_H_
