#include "common/base/statistics.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace kernelcast {
namespace {

TEST_CASE("Quantiles interpolate between order statistics") {
  const std::vector<double> values = {4, 1, 3, 2};
  CHECK(Median(values) == 2.5);
  CHECK(Quantile(values, 0) == 1);
  CHECK(Quantile(values, 1) == 4);
  CHECK(Quantile(values, 0.25) == 1.75);
  CHECK(Median(std::vector<double>{7}) == 7);
  CHECK(Median(std::vector<double>{3, 1, 2}) == 2);
  CHECK(Mean(values) == 2.5);
}

TEST_CASE("There is no median of nothing") {
  CHECK(std::isnan(Median({})));
  CHECK(std::isnan(Quantile({}, 0.5)));
  CHECK(std::isnan(Mean({})));
}

}  // namespace
}  // namespace kernelcast
