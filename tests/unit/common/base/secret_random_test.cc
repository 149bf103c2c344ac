#include "common/base/secret_random.h"

#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace kernelcast {
namespace {

SecretKey Counting() {
  SecretKey key;
  std::iota(key.begin(), key.end(), static_cast<unsigned char>(0));
  return key;
}

TEST_CASE("The stream is ChaCha20 keyed by SHA-256 of key and purpose") {
  // As printed by: openssl enc -chacha20 -K $(... | sha256sum) -iv 0.
  SecretRandom random(Counting(), "sentinels");
  CHECK(random.Next() == 0x4122b5649d929d56u);
  CHECK(random.Next() == 0x5952786665126ea7u);
  for (int i = 2; i < 256; ++i) random.Next();
  CHECK(random.Next() == 0x1e8eac4add8bc37bu);
  CHECK(random.Next() == 0x67ed7d3d21691c2au);
}

TEST_CASE("Streams with different purposes or keys share nothing") {
  std::set<uint64_t> seen;
  SecretKey other = Counting();
  other[31] ^= 1;
  for (const SecretKey& key : {Counting(), other}) {
    for (const char* purpose : {"plan", "poison", "sentinels", ""}) {
      SecretRandom random(key, purpose);
      for (int i = 0; i < 100; ++i) seen.insert(random.Next());
    }
  }
  CHECK(seen.size() == 800);
}

TEST_CASE("Generators without a key are independent") {
  SecretRandom first("plan");
  SecretRandom second("plan");
  CHECK(first.Next() != second.Next());
}

TEST_CASE("Bounded numbers and fractions cover their ranges") {
  SecretRandom random(Counting(), "plan");
  CHECK(random.Below(0) == 0);
  int counts[10] = {};
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    ++counts[random.Below(10)];
    const double fraction = random.Uniform();
    REQUIRE(fraction >= 0);
    REQUIRE(fraction < 1);
    sum += fraction;
  }
  for (const int count : counts) {
    CHECK(count > 850);
    CHECK(count < 1150);
  }
  CHECK(sum / 10'000 == Approx(0.5).epsilon(0.02));
}

TEST_CASE("An order has each number once, and each order is as likely") {
  SecretRandom random(Counting(), "plan");
  CHECK(random.Order(0).empty());
  std::map<std::vector<size_t>, int> orders;
  for (int i = 0; i < 6'000; ++i) ++orders[random.Order(3)];
  REQUIRE(orders.size() == 6);
  for (const auto& [order, count] : orders) {
    CHECK(std::set<size_t>(order.begin(), order.end()) == std::set<size_t>{0, 1, 2});
    CHECK(count > 850);
    CHECK(count < 1150);
  }
}

}  // namespace
}  // namespace kernelcast
