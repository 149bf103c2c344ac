#ifndef KERNELCAST_COMMON_BASE_ID_H_
#define KERNELCAST_COMMON_BASE_ID_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace kernelcast {

// `prefix` followed by 24 random hex digits from the kernel's generator.
std::string RandomId(std::string_view prefix);

// 64 random bits from the kernel's generator. A candidate cannot predict them.
uint64_t SecretSeed();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_ID_H_
