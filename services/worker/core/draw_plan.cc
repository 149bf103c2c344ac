#include "services/worker/core/draw_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <variant>

#include "common/base/status.h"
#include "services/worker/core/narrow_float.h"

namespace kernelcast::worker {
namespace {

using std::cos;
using std::exp;
using std::fabs;
using std::log;
using std::pow;
using std::rint;
using std::sqrt;

uint64_t DrawHighProduct(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
}

// The angle is in turns.
double DrawCosine(double turns) { return cos(2 * std::numbers::pi * turns); }

// The same code is compiled for the device, so it uses C style casts.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#define KERNELCAST_DRAW_FUNCTION inline
#define KERNELCAST_DRAW_CODE(...) __VA_ARGS__
#include "services/worker/core/counter_draw.inc"
#undef KERNELCAST_DRAW_CODE
#undef KERNELCAST_DRAW_FUNCTION
#pragma GCC diagnostic pop

template <class T>
void DrawTyped(const DrawPlan& plan, uint64_t seed, std::span<std::byte> data) {
  const auto count = static_cast<int64_t>(data.size() / sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    T value;
    if constexpr (std::is_floating_point_v<T>) {
      value = DrawFloat<T>(plan, seed, i, count);
    } else {
      value = static_cast<T>(
          DrawWhole(plan, seed, i, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    }
    std::memcpy(data.data() + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

absl::StatusOr<std::optional<DrawPlan>> PlanDraw(const TensorSpec& tensor,
                                                 const TensorLayout& layout, const CaseSpec& spec) {
  DrawPlan plan;
  if (tensor.quantisation.precision || spec.factor != 1) {
    return std::optional<DrawPlan>();
  }
  plan.step = tensor.quantisation.step;
  if (const auto* normal = std::get_if<Normal>(&tensor.init)) {
    plan.kind = kDrawNormal;
    plan.a = normal->mean;
    plan.b = normal->stddev;
  } else if (const auto* uniform = std::get_if<Uniform>(&tensor.init)) {
    plan.kind = kDrawUniform;
    plan.a = uniform->low;
    plan.b = uniform->high;
  } else if (const auto* integers = std::get_if<Integers>(&tensor.init)) {
    plan.kind = kDrawIntegers;
    const Variables variables = ToVariables(spec.axes);
    constexpr int64_t kLimit = int64_t{1} << 53;
    KC_ASSIGN_OR_RETURN(plan.low, integers->low.EvaluateInteger(variables, -kLimit, kLimit));
    KC_ASSIGN_OR_RETURN(const int64_t high,
                        integers->high.EvaluateInteger(variables, plan.low, kLimit));
    plan.range = static_cast<uint64_t>(high - plan.low) + 1;
  } else if (const auto* log_normal = std::get_if<LogNormal>(&tensor.init)) {
    plan.kind = kDrawLogNormal;
    plan.a = log_normal->mean;
    plan.b = log_normal->stddev;
  } else if (const auto* power_law = std::get_if<PowerLaw>(&tensor.init)) {
    plan.kind = kDrawPowerLaw;
    plan.a = power_law->low;
    plan.b = power_law->high;
    plan.exponent = power_law->exponent;
  } else if (const auto* constant = std::get_if<Constant>(&tensor.init)) {
    plan.kind = kDrawConstant;
    plan.a = constant->value;
  } else {
    return std::optional<DrawPlan>();
  }
  plan.row = std::max<int64_t>(1, layout.row_elements());
  const auto listed = [&](Adversarial kind) {
    return std::find(tensor.adversarial.begin(), tensor.adversarial.end(), kind) !=
           tensor.adversarial.end();
  };
  if (spec.adversarial && listed(*spec.adversarial)) {
    // Whole numbers are positions and counts: values outside the declared range would be invalid.
    const bool whole = !IsFloat(layout.dtype);
    switch (*spec.adversarial) {
      case Adversarial::kLarge: plan.change = whole ? kDrawPlain : kDrawLarge; break;
      case Adversarial::kZeros: plan.change = kDrawZeros; break;
      case Adversarial::kExtreme: plan.change = whole ? kDrawPlain : kDrawExtreme; break;
      case Adversarial::kEqualRows: plan.change = kDrawEqualRows; break;
    }
  }
  return std::optional<DrawPlan>(plan);
}

void DrawByCounter(DataType dtype, const DrawPlan& plan, uint64_t seed, std::span<std::byte> data) {
  switch (dtype) {
    case DataType::kFloat64: return DrawTyped<double>(plan, seed, data);
    case DataType::kFloat32: return DrawTyped<float>(plan, seed, data);
    case DataType::kInt64: return DrawTyped<int64_t>(plan, seed, data);
    case DataType::kInt32: return DrawTyped<int32_t>(plan, seed, data);
    case DataType::kInt8: return DrawTyped<int8_t>(plan, seed, data);
    case DataType::kUint8: return DrawTyped<uint8_t>(plan, seed, data);
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kFloat8E4m3:
    case DataType::kFloat8E5m2: break;
  }
  const auto size = static_cast<size_t>(SizeBytes(dtype));
  const auto count = static_cast<int64_t>(data.size() / size);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = EncodeNarrow(dtype, DrawFloat<float>(plan, seed, i, count));
    std::memcpy(data.data() + static_cast<size_t>(i) * size, &bits, size);
  }
}

void AlterByCounter(size_t size, uint64_t seed, std::span<const std::byte> other,
                    std::span<std::byte> data) {
  const auto count = static_cast<int64_t>(data.size() / size);
  for (int64_t pick = 0; pick < count / kAlteredEvery + 1; ++pick) {
    const size_t at = static_cast<size_t>(DrawPosition(seed, pick, count)) * size;
    std::copy_n(other.data() + at, size, data.data() + at);
  }
}

}  // namespace kernelcast::worker
