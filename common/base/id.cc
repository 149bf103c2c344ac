#include "common/base/id.h"

#include <errno.h>
#include <sys/random.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace kernelcast {
namespace {

void FillRandom(void* data, size_t size) {
  // Up to 256 bytes are returned whole. A signal can interrupt the call only before the generator
  // is seeded, at boot.
  ssize_t got;
  do {
    got = getrandom(data, size, 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(size)) {
    std::perror("kernelcast: getrandom");
    std::abort();
  }
}

}  // namespace

std::string RandomId(std::string_view prefix) {
  std::array<unsigned char, 12> bytes;
  FillRandom(bytes.data(), bytes.size());
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id(prefix);
  for (const unsigned char byte : bytes) {
    id += kDigits[byte >> 4];
    id += kDigits[byte & 15];
  }
  return id;
}

uint64_t SecretSeed() {
  uint64_t seed;
  FillRandom(&seed, sizeof seed);
  return seed;
}

}  // namespace kernelcast
