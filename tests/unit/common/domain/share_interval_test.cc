#include "common/domain/share_interval.h"

#include <catch2/catch.hpp>

namespace kernelcast {
namespace {

// R: prop.test(c(8, 0, 20), c(10, 20, 20), correct = FALSE), each alone.
TEST_CASE("Wilson's interval has worked values", "[unit]") {
  const ShareInterval most = WilsonInterval(0.8, 10);
  CHECK(most.low == Approx(0.4902).margin(1e-4));
  CHECK(most.high == Approx(0.9433).margin(1e-4));
  const ShareInterval none = WilsonInterval(0, 20);
  CHECK(none.low == 0);
  CHECK(none.high == Approx(0.1611).margin(1e-4));
  const ShareInterval all = WilsonInterval(1, 20);
  CHECK(all.low == Approx(0.8389).margin(1e-4));
  CHECK(all.high == 1);
}

TEST_CASE("Wilson's interval contains the share and narrows with more items", "[unit]") {
  for (const double share : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    double width = 2;
    for (const double count : {0.5, 1.0, 10.0, 1000.0}) {
      const ShareInterval interval = WilsonInterval(share, count);
      CHECK(interval.low >= 0);
      CHECK(interval.high <= 1);
      CHECK(interval.low <= share + 1e-12);
      CHECK(interval.high >= share - 1e-12);
      CHECK(interval.high - interval.low < width);
      width = interval.high - interval.low;
    }
  }
}

}  // namespace
}  // namespace kernelcast
