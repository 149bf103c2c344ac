#include "common/base/crc32c.h"

#include <array>
#include <cstring>

namespace kernelcast {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t WithInstruction(std::string_view bytes, uint32_t crc) {
  uint64_t state = ~crc;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    state = __builtin_ia32_crc32di(state, word);
  }
  auto tail = static_cast<uint32_t>(state);
  for (; left > 0; ++at, --left) {
    tail = __builtin_ia32_crc32qi(tail, static_cast<unsigned char>(*at));
  }
  return ~tail;
}
#endif

}  // namespace

uint32_t crc32c_internal::Portable(std::string_view bytes, uint32_t crc) {
  uint32_t state = ~crc;
  for (const char c : bytes) {
    state = (state >> 8) ^ kTable[(state ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return ~state;
}

uint32_t Crc32c(std::string_view bytes, uint32_t crc) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0) return WithInstruction(bytes, crc);
#endif
  return crc32c_internal::Portable(bytes, crc);
}

}  // namespace kernelcast
