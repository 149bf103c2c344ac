#include "common/base/hash.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

namespace kernelcast {
namespace {

template <class... Fields>
std::string Hash(const Fields&... fields) {
  ContentHasher hasher;
  (hasher.Add(fields), ...);
  return hasher.Hex128();
}

}  // namespace

TEST_CASE("A hash is the first 128 bits of SHA-256 over typed, length-prefixed fields", "[hash]") {
  // printf 's\x03\0\0\0\0\0\0\0abc' | sha256sum | cut -c1-32
  CHECK(Hash("abc") == "738cc6a4aeca85404f503c399ed1bf53");
  // printf '' | sha256sum
  CHECK(Hash() == "e3b0c44298fc1c149afbf4c8996fb924");
}

TEST_CASE("Field lists do not collide by concatenation", "[hash]") {
  CHECK(Hash("ab", "c") != Hash("a", "bc"));
  CHECK(Hash("abc") != Hash("ab", "c"));
  CHECK(Hash("abc", "") != Hash("abc"));
  CHECK(Hash("", "abc") != Hash("abc", ""));
}

TEST_CASE("Fields of different types do not collide", "[hash]") {
  CHECK(Hash(std::string(8, '\0')) != Hash(0.0));
  CHECK(Hash(0.0) != Hash(0));
  CHECK(Hash("1") != Hash(1));
}

TEST_CASE("Integers hash by value whatever their type", "[hash]") {
  CHECK(Hash(3) == Hash(int64_t{3}));
  CHECK(Hash(3) == Hash(3u));
  CHECK(Hash(3) == Hash(3ULL));
  CHECK(Hash(-1) == Hash(int64_t{-1}));
  CHECK(Hash(-1) != Hash(std::numeric_limits<uint64_t>::max()));
}

TEST_CASE("Doubles hash by value", "[hash]") {
  CHECK(Hash(0.0) == Hash(-0.0));
  CHECK(Hash(std::nan("1")) == Hash(-std::numeric_limits<double>::quiet_NaN()));
  CHECK(Hash(1.0) != Hash(std::nextafter(1.0, 2.0)));
}

TEST_CASE("Bytes after a NUL are hashed", "[hash]") {
  using std::string_literals::operator""s;
  CHECK(Hash("a\0b"s) != Hash("a\0c"s));
}

}  // namespace kernelcast
