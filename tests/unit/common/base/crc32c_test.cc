#include "common/base/crc32c.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast {
namespace {

TEST_CASE("CRC-32C matches RFC 3720 with and without the instruction", "[base]") {
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending.push_back(static_cast<char>(i));
  const std::pair<std::string, uint32_t> known[] = {
      {"", 0},
      {"123456789", 0xe3069283},
      {std::string(32, '\0'), 0x8a9136aa},
      {std::string(32, '\xff'), 0x62a8ab43},
      {ascending, 0x46dd794e},
  };
  for (const auto& [bytes, crc] : known) {
    CHECK(Crc32c(bytes) == crc);
    CHECK(crc32c_internal::Portable(bytes, 0) == crc);
    for (size_t split = 0; split <= bytes.size(); ++split) {
      const std::string_view view = bytes;
      CHECK(Crc32c(view.substr(split), Crc32c(view.substr(0, split))) == crc);
    }
  }
}

}  // namespace
}  // namespace kernelcast
