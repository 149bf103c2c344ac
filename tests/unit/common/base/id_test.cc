#include "common/base/id.h"

#include <catch2/catch.hpp>
#include <set>

namespace kernelcast {

TEST_CASE("An id is its prefix and 24 hex digits", "[id]") {
  const std::string id = RandomId("s_");
  CHECK(id.substr(0, 2) == "s_");
  CHECK(id.size() == 26);
  CHECK(id.find_first_not_of("0123456789abcdef", 2) == std::string::npos);
}

TEST_CASE("Ids and seeds do not repeat", "[id]") {
  std::set<std::string> ids;
  std::set<uint64_t> seeds;
  for (int i = 0; i < 10'000; ++i) {
    ids.insert(RandomId(""));
    seeds.insert(SecretSeed());
  }
  CHECK(ids.size() == 10'000);
  CHECK(seeds.size() == 10'000);
}

}  // namespace kernelcast
