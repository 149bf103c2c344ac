#include "services/worker/python/recording.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kernelcast::worker {
namespace {

using Json = nlohmann::json;

Json Example() {
  return Json::parse(R"({
    "source": "import triton\n",
    "tensors": [{"dtype": "float16", "elements": 4096},
                {"dtype": "int32", "elements": 16, "low": 0, "high": 9}],
    "launches": [{"kernel": "copy", "grid": [16, 2], "num_warps": 8, "num_stages": 0,
                  "arguments": [{"tensor": 1}, {"tensor": 0}, {"int": 5}, {"int": 5000000000},
                                {"int": -1}, {"float": 1e-05}, {"float": 2}],
                  "constants": {"A": {"kind": "int", "value": 256},
                                "B": {"kind": "float", "value": 2},
                                "C": {"kind": "bool", "value": true},
                                "D": {"kind": "none"},
                                "E": {"kind": "type", "value": "float32"},
                                "F": {"kind": "text", "value": "relu"}}}],
    "operations": [{"name": "mm", "bytes": 4096, "operations": 65536, "unit": "matrix_half",
                    "count": 3}],
    "needed": 8192})");
}

std::string ErrorOf(const Json& json) {
  return std::string(ReadRecording(json.dump()).status().message());
}

TEST_CASE("A recording is read as launches of a Triton candidate") {
  const auto recording = ReadRecording(Example().dump());
  INFO(recording.status().ToString());
  REQUIRE(recording.ok());
  CHECK(recording->not_recorded.empty());
  REQUIRE(recording->tensors.size() == 2);
  CHECK(recording->tensors[0].dtype == DataType::kFloat16);
  CHECK(recording->tensors[0].elements == 4096);
  CHECK_FALSE(recording->tensors[0].range.has_value());
  CHECK(recording->tensors[1].range == std::pair<int64_t, int64_t>(0, 9));
  REQUIRE(recording->launches.size() == 1);
  const Launch& launch = recording->launches[0];
  CHECK(launch.kernel == "copy");
  CHECK(launch.grid == std::vector<std::string>{"16", "2"});
  CHECK(launch.arguments == std::vector<std::string>{"t1", "t0", "5:int32", "5000000000:int64",
                                                     "-1:int32", "1.0000000000000001e-05:float32",
                                                     "2.0:float32"});
  CHECK(launch.constexprs == std::vector<Constexpr>{{"A", "256"},
                                                    {"B", "2.0"},
                                                    {"C", "true"},
                                                    {"D", "none"},
                                                    {"E", "tl.float32"},
                                                    {"F", "'relu'"}});
  CHECK(launch.num_warps == 8);
  REQUIRE(recording->operations.size() == 1);
  CHECK(recording->operations[0].unit == RecordedOperation::Unit::kHalf);
  CHECK(recording->operations[0].count == 3);
  CHECK(recording->needed_bytes == 8192);
}

TEST_CASE("A reason why nothing is recorded is one short line") {
  Json json;
  json["not_recorded"] = "reads\nvalues " + std::string(5000, 'x');
  const auto recording = ReadRecording(json.dump());
  REQUIRE(recording.ok());
  CHECK(recording->not_recorded.starts_with("reads values xx"));
  CHECK(recording->not_recorded.size() == kMaxReasonBytes);
  CHECK(recording->launches.empty());
}

TEST_CASE("A recording that a candidate forged is refused, whatever it holds") {
  struct Damage {
    const char* pointer;
    Json value;
  };
  const Json many_tensors(std::vector<Json>(kMaxRecordedTensors + 1, Example()["tensors"][0]));
  const Json many_launches(std::vector<Json>(65, Example()["launches"][0]));
  const Json many_operations(
      std::vector<Json>(kMaxRecordedOperations + 1, Example()["operations"][0]));
  const Json many_arguments(std::vector<Json>(65, Json{{"int", 1}}));
  const std::vector<Damage> damages = {
      {"/not_recorded", 7},
      {"/not_recorded", ""},
      {"/source", nullptr},
      {"/source", std::string(kMaxSourceBytes + 1, 'x')},
      {"/tensors", Json::object()},
      {"/tensors", many_tensors},
      {"/tensors/0", "x"},
      {"/tensors/0/dtype", "complex64"},
      {"/tensors/0/dtype", 3},
      {"/tensors/0/elements", 0},
      {"/tensors/0/elements", -1},
      {"/tensors/0/elements", 1.5},
      {"/tensors/0/elements", kMaxTensorElements + 1},
      {"/tensors/0/elements", UINT64_MAX},
      {"/tensors/1/low", 10},
      {"/tensors/1/high", 1e300},
      {"/launches", many_launches},
      {"/launches/0", Json::array()},
      {"/launches/0/kernel", Json::array()},
      {"/launches/0/grid", "16"},
      {"/launches/0/grid/0", 0},
      {"/launches/0/grid", std::vector<int>{1, 1, 1, 1}},
      {"/launches/0/arguments", many_arguments},
      {"/launches/0/arguments/0/tensor", 2},
      {"/launches/0/arguments/0/tensor", -1},
      {"/launches/0/arguments/0", Json::object()},
      {"/launches/0/arguments/2/int", UINT64_MAX},
      {"/launches/0/arguments/2/int", (int64_t{1} << 53) + 1},
      {"/launches/0/arguments/5/float", "1:int32"},
      {"/launches/0/constants", Json::array()},
      {"/launches/0/constants/A/value", 1.5},
      {"/launches/0/constants/A/kind", "code"},
      {"/launches/0/constants/E/value", "float32.x"},
      {"/launches/0/constants/F/value", "a' + 'b"},
      {"/launches/0/num_warps", 64},
      {"/launches/0/num_stages", -1},
      {"/operations", many_operations},
      {"/operations/0/bytes", -1},
      {"/operations/0/bytes", 1e19},
      {"/operations/0/operations", "many"},
      {"/operations/0/unit", "tensor"},
      {"/operations/0/count", 0},
      {"/operations/0/count", 1 << 30},
      {"/operations/0/name", std::string(100, 'x')},
      {"/needed", -1},
      {"/needed", nullptr},
  };
  for (const Damage& damage : damages) {
    Json json = Example();
    json[Json::json_pointer(damage.pointer)] = damage.value;
    INFO(damage.pointer);
    CHECK_THAT(ErrorOf(json), Catch::Contains("the recording has"));
  }
  Json nothing = Example();
  nothing["launches"] = Json::array();
  nothing["operations"] = Json::array();
  CHECK_THAT(ErrorOf(nothing), Catch::Contains("neither launches nor operations"));
  const std::string deep(10'000, '[');
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{"), deep, std::string("\0\xff", 2),
        std::string(R"({"tensors":[{"dtype":"float32","elements":1e999}]})"),
        std::string(static_cast<size_t>(kMaxRecordingBytes) + 1, ' ')}) {
    CHECK_FALSE(ReadRecording(text).ok());
  }
}

}  // namespace
}  // namespace kernelcast::worker
