#include "common/llm/latency_tracker.h"

#include <catch2/catch.hpp>

namespace kernelcast::llm {

TEST_CASE("The percentile is unknown before twenty samples", "[llm]") {
  LatencyTracker tracker;
  for (int i = 0; i < 19; ++i) tracker.Add(100);
  CHECK(tracker.P95Ns() == 0);
  tracker.Add(100);
  CHECK(tracker.P95Ns() == 100);
}

TEST_CASE("The percentile follows the samples", "[llm]") {
  LatencyTracker tracker;
  for (int i = 1; i <= 100; ++i) tracker.Add(i);
  CHECK(tracker.P95Ns() == 95);
  for (int i = 0; i < 256; ++i) tracker.Add(1000);
  CHECK(tracker.P95Ns() == 1000);
}

}  // namespace kernelcast::llm
