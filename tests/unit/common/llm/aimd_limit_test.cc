#include "common/llm/aimd_limit.h"

#include <catch2/catch.hpp>

namespace kernelcast::llm {

TEST_CASE("The limit doubles with each round of successes up to its maximum", "[llm]") {
  AimdLimit limit(4, 100);
  for (int i = 0; i < 4; ++i) limit.OnSuccess(limit.limit());
  CHECK(limit.limit() == 8);
  for (int i = 0; i < 1000; ++i) limit.OnSuccess(limit.limit());
  CHECK(limit.limit() == 100);
}

TEST_CASE("An unused limit does not grow", "[llm]") {
  AimdLimit limit(10, 100);
  for (int i = 0; i < 1000; ++i) limit.OnSuccess(4);
  CHECK(limit.limit() == 10);
}

TEST_CASE("Overloads in one round cut the limit once, and it grows by one per round after",
          "[llm]") {
  AimdLimit limit(100, 200);
  const int64_t epoch = limit.epoch();
  for (int i = 0; i < 50; ++i) limit.OnOverload(epoch);
  CHECK(limit.limit() == 70);
  for (int i = 0; i < 71; ++i) limit.OnSuccess(limit.limit());
  CHECK(limit.limit() == 71);
  limit.OnOverload(limit.epoch());
  CHECK(limit.limit() == 49);
}

TEST_CASE("Rare hung requests cut nothing, but a tenth of hung requests does", "[llm]") {
  AimdLimit limit(100, 100);
  for (int i = 0; i < 1000; ++i) {
    if (i % 30 == 0) limit.OnTimeout(limit.epoch());
    limit.OnSuccess(100);
  }
  CHECK(limit.limit() == 100);
  for (int i = 0; i < 4; ++i) limit.OnTimeout(limit.epoch());
  CHECK(limit.limit() == 70);
}

TEST_CASE("The limit never falls below one", "[llm]") {
  AimdLimit limit(2, 10);
  for (int i = 0; i < 20; ++i) limit.OnOverload(limit.epoch());
  CHECK(limit.limit() == 1);
  for (int i = 0; i < 2; ++i) limit.OnSuccess(1);
  CHECK(limit.limit() >= 2);
}

}  // namespace kernelcast::llm
