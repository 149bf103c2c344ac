#include "common/base/lru_cache.h"

#include <catch2/catch.hpp>

namespace kernelcast {
namespace {

std::shared_ptr<const int> Value(int value) { return std::make_shared<const int>(value); }

TEST_CASE("A cache drops the value least recently used") {
  LruCache<int> cache(2, 1 << 20);
  CHECK(cache.Find("a") == nullptr);
  cache.Put("a", Value(1), 1);
  cache.Put("b", Value(2), 1);
  CHECK(*cache.Find("a") == 1);
  cache.Put("c", Value(3), 1);
  CHECK(cache.Find("b") == nullptr);
  CHECK(*cache.Find("a") == 1);
  CHECK(*cache.Find("c") == 3);
}

TEST_CASE("A cache is bounded in size, but always holds the latest value") {
  LruCache<int> cache(100, 1000);
  cache.Put("a", Value(1), 600);
  cache.Put("b", Value(2), 400);
  CHECK(cache.Find("a") != nullptr);
  cache.Put("c", Value(3), 600);
  CHECK(cache.Find("b") == nullptr);
  CHECK(cache.Find("a") == nullptr);
  cache.Put("d", Value(4), 5000);
  CHECK(cache.Find("c") == nullptr);
  CHECK(*cache.Find("d") == 4);
  cache.Put("e", Value(5), 1000);
  CHECK(cache.Find("d") == nullptr);
  CHECK(*cache.Find("e") == 5);
}

TEST_CASE("Putting a key again keeps its first value, counted once, as the latest") {
  LruCache<int> cache(100, 1000);
  cache.Put("a", Value(1), 400);
  cache.Put("b", Value(2), 400);
  cache.Put("a", Value(3), 400);
  CHECK(*cache.Find("b") == 2);
  CHECK(*cache.Find("a") == 1);
  cache.Put("b", Value(4), 400);
  cache.Put("c", Value(5), 400);
  CHECK(cache.Find("a") == nullptr);
  CHECK(*cache.Find("b") == 2);
}

TEST_CASE("Erased keys are gone and leave room") {
  LruCache<int> cache(100, 1000);
  cache.Put("a", Value(1), 600);
  cache.Put("b", nullptr, 400);
  CHECK(cache.Contains("a"));
  CHECK(cache.Contains("b"));
  CHECK_FALSE(cache.Contains("c"));
  cache.Erase("a");
  cache.Erase("c");
  CHECK_FALSE(cache.Contains("a"));
  cache.Put("c", Value(3), 600);
  CHECK(cache.Contains("b"));
  cache.Clear();
  CHECK_FALSE(cache.Contains("b"));
  CHECK(cache.Find("c") == nullptr);
  cache.Put("d", Value(4), 600);
  cache.Put("e", Value(5), 400);
  CHECK(cache.Contains("d"));
}

TEST_CASE("A value in use survives its removal from a cache") {
  LruCache<int> cache(1, 1 << 20);
  cache.Put("a", Value(1), 1);
  const auto held = cache.Find("a");
  cache.Put("b", Value(2), 1);
  CHECK(cache.Find("a") == nullptr);
  CHECK(*held == 1);
}

}  // namespace
}  // namespace kernelcast
