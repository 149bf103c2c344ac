#include "services/worker/core/narrow_float.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kernelcast::worker {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t exponent_mask() const { return (1u << exponent_bits) - 1; }
  uint32_t mantissa_mask() const { return (1u << mantissa_bits) - 1; }
  uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  uint32_t nan() const { return (exponent_mask() << mantissa_bits) | mantissa_mask(); }
  // Infinity, or the largest finite value.
  uint32_t top() const { return has_infinity ? exponent_mask() << mantissa_bits : nan() - 1; }
};

Format FormatOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat16: return {5, 10, true};
    case DataType::kFloat8E5m2: return {5, 2, true};
    case DataType::kFloat8E4m3: return {4, 3, false};
    default: return {8, 7, true};
  }
}

}  // namespace

bool IsNarrowFloat(DataType dtype) { return IsFloat(dtype) && SizeBytes(dtype) < 4; }

uint32_t EncodeNarrow(DataType dtype, double value) {
  const Format format = FormatOf(dtype);
  const uint32_t sign = std::signbit(value) ? format.sign() : 0;
  if (std::isnan(value)) {
    return sign | format.nan();
  }
  const double magnitude = std::abs(value);
  if (std::isinf(magnitude)) {
    return sign | format.top();
  }
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // Exponent of one unit in the last place.
  int unit = std::max(exponent - 1, 1 - format.bias()) - format.mantissa_bits;
  auto mantissa = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  if (mantissa >> (format.mantissa_bits + 1) != 0) {
    mantissa >>= 1;
    ++unit;
  }
  if (mantissa >> format.mantissa_bits == 0) {
    return sign | static_cast<uint32_t>(mantissa);  // subnormal
  }
  const int field = unit + format.mantissa_bits + format.bias();
  const uint64_t bits =
      (static_cast<uint64_t>(field) << format.mantissa_bits) | (mantissa & format.mantissa_mask());
  return sign | static_cast<uint32_t>(std::min<uint64_t>(bits, format.top()));
}

double DecodeNarrow(DataType dtype, uint32_t bits) {
  const Format format = FormatOf(dtype);
  const double sign = (bits & format.sign()) != 0 ? -1.0 : 1.0;
  const uint32_t field = (bits >> format.mantissa_bits) & format.exponent_mask();
  const uint32_t mantissa = bits & format.mantissa_mask();
  if (field == format.exponent_mask() &&
      (format.has_infinity || mantissa == format.mantissa_mask())) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const int unit = static_cast<int>(std::max(field, 1u)) - format.bias() - format.mantissa_bits;
  const uint32_t whole = field == 0 ? mantissa : mantissa | (format.mantissa_mask() + 1);
  return sign * std::ldexp(whole, unit);
}

}  // namespace kernelcast::worker
