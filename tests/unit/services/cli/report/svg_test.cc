#include "services/cli/report/svg.h"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

namespace kernelcast::cli {
namespace {

TEST_CASE("A logarithmic axis has a readable number of ticks at any range") {
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{
           {0.9, 1.1}, {0.5, 2}, {0.25, 4}, {0.06, 9}, {0.01, 100}, {0.001, 1000}, {0.95, 60}}) {
    const auto ticks = LogTicks(low, high);
    INFO(low << " to " << high);
    CHECK(ticks.size() >= 3);
    CHECK(ticks.size() <= 11);
    for (const double tick : ticks) {
      CHECK(tick >= low * 0.999);
      CHECK(tick <= high * 1.001);
    }
  }
  CHECK(TickLabel(0.5) == "0.5×");
  CHECK(TickLabel(16) == "16×");
}

TEST_CASE("A scale maps its range and clamps what is outside") {
  const SvgScale linear(0, 10, 100, 200, false);
  CHECK(linear(2.5) == Approx(125));
  CHECK(linear(-1) == 100);
  CHECK(linear(11) == 200);
  // A higher value is further up, where coordinates are smaller.
  const SvgScale logarithmic(0.25, 4, 300, 100, true);
  CHECK(logarithmic(1) == Approx(200));
  CHECK(logarithmic(2) == Approx(150));
  CHECK(logarithmic(0) == 300);
}

TEST_CASE("Coordinates have at most one decimal, and text is escaped") {
  CHECK(SvgNumber(12.34) == "12.3");
  CHECK(SvgNumber(12.04) == "12");
  CHECK(SvgNumber(-0.01) == "0");
  CHECK(SvgText(1, 2, "tick e", "a<b") == "<text class=\"tick e\" x=1 y=2>a&lt;b</text>");
  CHECK(SvgTextUpwards(13, 2.5, "axis m", "count") ==
        "<text class=\"axis m\" transform=\"translate(13 2.5) rotate(-90)\">count</text>");
}

}  // namespace
}  // namespace kernelcast::cli
