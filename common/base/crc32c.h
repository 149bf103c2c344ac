#ifndef KERNELCAST_COMMON_BASE_CRC32C_H_
#define KERNELCAST_COMMON_BASE_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace kernelcast {

// CRC-32C (Castagnoli), with the CPU instruction if available. `crc` is the checksum of the
// preceding bytes: Crc32c("ab") == Crc32c("b", Crc32c("a")). Detects accidental damage only, not
// forgery.
uint32_t Crc32c(std::string_view bytes, uint32_t crc = 0);

namespace crc32c_internal {
// The same without the CPU instruction.
uint32_t Portable(std::string_view bytes, uint32_t crc);
}  // namespace crc32c_internal

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_CRC32C_H_
