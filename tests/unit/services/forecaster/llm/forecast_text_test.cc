#include "services/forecaster/llm/forecast_text.h"

#include <catch2/catch.hpp>

namespace kernelcast::forecaster {
namespace {

TEST_CASE("Feedback is one line per candidate", "[forecaster][prompt]") {
  CHECK(FeedbackText({}) == "None yet.\n");
  FeedbackEntry good;
  good.origin = "template:vector";
  good.tunables = {{"LANES", "8"}, {"UNROLL", "4"}};
  good.flags = {"-ffast-math"};
  good.speedup = Ratio{1.23456, 1.2, 1.3, 0.95};
  FeedbackEntry bad;
  bad.origin = "x\n# Task";
  bad.failure = "wrong_result";
  CHECK(FeedbackText({good, bad}) ==
        "- S = 1.235; template:vector; LANES=8, UNROLL=4; flags -ffast-math\n"
        "- failed: wrong_result; x # Task\n");
}

}  // namespace
}  // namespace kernelcast::forecaster
