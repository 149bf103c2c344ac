#ifndef KERNELCAST_COMMON_BASE_FNV_H_
#define KERNELCAST_COMMON_BASE_FNV_H_

#include <cstdint>
#include <string_view>

namespace kernelcast {

// FNV-1a in 64 bits: fast, and the same in every process and version, unlike absl::Hash. Collisions
// are easy to construct, so ids of content use ContentHasher.
inline constexpr uint64_t kFnvBasis = 0xcbf29ce484222325;

// Adds a byte or a word to a hash.
constexpr uint64_t FnvStep(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x100000001b3; }

// To hash several texts, pass the hash of those before as `hash`.
constexpr uint64_t FnvHash(std::string_view text, uint64_t hash = kFnvBasis) {
  for (const char c : text) hash = FnvStep(hash, static_cast<unsigned char>(c));
  return hash;
}

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_FNV_H_
