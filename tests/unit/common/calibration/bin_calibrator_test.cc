#include "common/calibration/bin_calibrator.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "common/domain/bins.h"

namespace kernelcast {
namespace {

BinCalibrator Vector() {
  BinCalibrator calibrator;
  calibrator.bin_scheme_id = BinScheme::kDefaultId;
  calibrator.records = 123.4;
  calibrator.map = {std::vector<double>(8, 0.5), {0, 0, 0, 0, 0.25, 0, 0, 0}};
  return calibrator;
}

TEST_CASE("A map of scales 1 and biases 0 changes nothing", "[calibration]") {
  BinCalibrator calibrator;
  calibrator.map = {std::vector<double>(4, 1), std::vector<double>(4, 0)};
  const std::vector<double> p = {0.125, 0.5, 0.25, 0.125};
  const std::vector<double> q = calibrator.Apply(p);
  for (size_t i = 0; i < p.size(); ++i) CHECK(q[i] == Approx(p[i]).epsilon(1e-12));
}

TEST_CASE("The output is always a simplex", "[calibration][property]") {
  for (const std::vector<double>& p :
       {std::vector<double>{1, 0, 0, 0, 0, 0, 0, 0}, std::vector<double>(8, 0.125),
        std::vector<double>{0.9, 0.1, 0, 0, 0, 0, 0, 0}}) {
    const std::vector<double> q = Vector().Apply(p);
    REQUIRE(q.size() == 8);
    CHECK(std::accumulate(q.begin(), q.end(), 0.0) == Approx(1));
    for (const double value : q) CHECK(value > 0);
  }
}

TEST_CASE("A calibrator's version names its map", "[calibration]") {
  CHECK_THAT(Vector().version(), Catch::StartsWith("vector/1;records=123;id="));
  CHECK(Vector().version() == Vector().version());
  BinCalibrator other = Vector();
  other.map.bias[0] = 1e-9;
  CHECK(other.version() != Vector().version());
}

}  // namespace
}  // namespace kernelcast
