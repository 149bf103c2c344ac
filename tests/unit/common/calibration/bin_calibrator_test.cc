#include "common/calibration/bin_calibrator.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "common/domain/bins.h"

namespace kernelcast {
namespace {

using Json = nlohmann::ordered_json;

BinCalibrator Vector() {
  BinCalibrator calibrator;
  calibrator.method = CalibrationMethod::kVector;
  calibrator.bin_scheme_id = BinScheme::kDefaultId;
  calibrator.records = 123.4;
  calibrator.map = VectorMap{std::vector<double>(8, 0.5), {0, 0, 0, 0, 0.25, 0, 0, 0}};
  return calibrator;
}

std::vector<BinCalibrator> OneOfEach() {
  std::vector<BinCalibrator> all(2, Vector());
  all[1].method = CalibrationMethod::kTemperature;
  all[1].map = TemperatureMap{1.5};
  return all;
}

TEST_CASE("An identity map changes nothing", "[calibration]") {
  const std::vector<double> p = {0, 0.5, 0.5, 0, 0, 0, 0, 0};
  CHECK(BinCalibrator().Apply(p) == p);
  CHECK(BinCalibrator().version() == "none");
}

TEST_CASE("The output is always a simplex", "[calibration][property]") {
  for (const BinCalibrator& calibrator : OneOfEach()) {
    CAPTURE(calibrator.version());
    for (const std::vector<double>& p :
         {std::vector<double>{1, 0, 0, 0, 0, 0, 0, 0}, std::vector<double>(8, 0.125),
          std::vector<double>{0.9, 0.1, 0, 0, 0, 0, 0, 0}}) {
      const std::vector<double> q = calibrator.Apply(p);
      REQUIRE(q.size() == 8);
      CHECK(std::accumulate(q.begin(), q.end(), 0.0) == Approx(1));
      for (const double value : q) CHECK(value > 0);
    }
  }
}

TEST_CASE("A calibrator survives being written and read, and its version names its map",
          "[calibration]") {
  for (const BinCalibrator& calibrator : OneOfEach()) {
    const Json json = CalibratorToJson(calibrator);
    const auto read = CalibratorFromJson(Json::parse(json.dump()));
    REQUIRE(read.ok());
    CHECK(CalibratorToJson(*read) == json);
    CHECK(read->version() == calibrator.version());
    const std::vector<double> p = {0.6, 0.3, 0.1, 0, 0, 0, 0, 0};
    CHECK(read->Apply(p) == calibrator.Apply(p));
  }
  CHECK_THAT(Vector().version(), Catch::StartsWith("vector/1;records=123;id="));
  BinCalibrator other = Vector();
  std::get<VectorMap>(other.map).bias[0] = 1e-9;
  CHECK(other.version() != Vector().version());
}

TEST_CASE("An invalid calibrator is refused with its field", "[calibration]") {
  const auto error = [](const BinCalibrator& calibrator, const char* pointer, const Json& value) {
    Json json = CalibratorToJson(calibrator);
    json[Json::json_pointer(pointer)] = value;
    const auto read = CalibratorFromJson(json);
    REQUIRE_FALSE(read.ok());
    return std::string(read.status().message());
  };
  const std::vector<BinCalibrator> all = OneOfEach();
  CHECK_THAT(error(all[0], "/schema", "other/1"), Catch::StartsWith("schema: 'other/1'"));
  CHECK_THAT(error(all[0], "/method", "magic"), Catch::Contains("none, temperature, vector"));
  CHECK_THAT(error(all[0], "/bin_scheme_id", "x"), Catch::StartsWith("bin_scheme_id: "));
  CHECK_THAT(error(all[0], "/records", "many"), Catch::StartsWith("records: "));
  CHECK_THAT(error(all[0], "/map/scale", {1, 2}), Catch::Contains("8 numbers are wanted"));
  CHECK_THAT(error(all[0], "/map/bias/3", "x"), Catch::Contains("map.bias: '\"x\"' is not a"));
  CHECK_THAT(error(all[1], "/map/temperature", 0), Catch::StartsWith("map.temperature: "));
  CHECK_THAT(error(all[0], "/method", "isotonic"), Catch::Contains("none, temperature, vector"));
  CHECK_FALSE(CalibratorFromJson(Json::array()).ok());
}

}  // namespace
}  // namespace kernelcast
