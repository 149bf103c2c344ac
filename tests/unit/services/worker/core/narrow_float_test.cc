#include "services/worker/core/narrow_float.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace kernelcast::worker {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_CASE("Known values have known bit patterns") {
  CHECK(EncodeNarrow(DataType::kFloat16, 1) == 0x3c00);
  CHECK(EncodeNarrow(DataType::kFloat16, -2) == 0xc000);
  CHECK(EncodeNarrow(DataType::kFloat16, 65504) == 0x7bff);
  CHECK(EncodeNarrow(DataType::kFloat16, 65520) == 0x7c00);
  CHECK(EncodeNarrow(DataType::kFloat16, 0x1p-24) == 1);
  CHECK(EncodeNarrow(DataType::kFloat16, 0x1p-25) == 0);  // a tie, to even
  CHECK(EncodeNarrow(DataType::kBfloat16, 3.140625) == 0x4049);
  CHECK(EncodeNarrow(DataType::kBfloat16, 1 + 0x1p-8) == 0x3f80);
  CHECK(EncodeNarrow(DataType::kBfloat16, 1 + 3 * 0x1p-8) == 0x3f82);
  CHECK(EncodeNarrow(DataType::kFloat8E4m3, 448) == 0x7e);
  CHECK(EncodeNarrow(DataType::kFloat8E4m3, 1e6) == 0x7e);
  CHECK(EncodeNarrow(DataType::kFloat8E4m3, -kInfinity) == 0xfe);
  CHECK(EncodeNarrow(DataType::kFloat8E4m3, 0x1p-9) == 1);
  CHECK(EncodeNarrow(DataType::kFloat8E5m2, 57344) == 0x7b);
  CHECK(EncodeNarrow(DataType::kFloat8E5m2, kInfinity) == 0x7c);
}

TEST_CASE("Every value of a narrow type round-trips") {
  for (const DataType dtype :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8E4m3, DataType::kFloat8E5m2}) {
    const uint32_t count = SizeBytes(dtype) == 1 ? 0x100 : 0x10000;
    int values = 0;
    for (uint32_t bits = 0; bits < count; ++bits) {
      const double value = DecodeNarrow(dtype, bits);
      if (std::isnan(value)) {
        CHECK(std::isnan(DecodeNarrow(dtype, EncodeNarrow(dtype, value))));
        continue;
      }
      ++values;
      if (EncodeNarrow(dtype, value) != bits) {
        FAIL(Name(dtype) << " " << bits << " is " << value);
      }
    }
    CHECK(values > static_cast<int>(count) * 3 / 4);
  }
}

TEST_CASE("Encoding rounds to the nearest value") {
  for (const DataType dtype :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8E4m3, DataType::kFloat8E5m2}) {
    for (uint32_t bits = 0; bits < 0x70; ++bits) {
      const double low = DecodeNarrow(dtype, bits);
      const double high = DecodeNarrow(dtype, bits + 1);
      CHECK(EncodeNarrow(dtype, low + 0.49 * (high - low)) == bits);
      CHECK(EncodeNarrow(dtype, low + 0.51 * (high - low)) == bits + 1);
      CHECK(EncodeNarrow(dtype, low + 0.5 * (high - low)) == bits + (bits & 1));
    }
  }
}

}  // namespace
}  // namespace kernelcast::worker
