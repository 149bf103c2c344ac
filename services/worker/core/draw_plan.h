#ifndef KERNELCAST_SERVICES_WORKER_CORE_DRAW_PLAN_H_
#define KERNELCAST_SERVICES_WORKER_CORE_DRAW_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/core/inputs.h"
#include "services/worker/core/tensor.h"

namespace kernelcast::worker {

enum DrawKind : int32_t {
  kDrawNormal,
  kDrawUniform,
  kDrawIntegers,
  kDrawConstant,
  kDrawLogNormal,
  kDrawPowerLaw
};
enum DrawChange : int32_t { kDrawPlain, kDrawLarge, kDrawZeros, kDrawExtreme, kDrawEqualRows };

// How to draw the values of one input with a counter-based generator, on a device or on the host.
// Passed to kernels by value.
struct DrawPlan {
  int32_t kind = kDrawConstant;
  int32_t change = kDrawPlain;
  // Mean and standard deviation (of the logarithm for log-normal), or bounds, or the constant.
  double a = 0;
  double b = 0;
  // Exponent of a power law.
  double exponent = 0;
  // Floating-point values are rounded to a multiple of this. 0: no rounding.
  double step = 0;
  // Integers: the smallest value and the number of values.
  int64_t low = 0;
  uint64_t range = 1;
  // Elements per row, at least 1.
  int64_t row = 1;
};

// Returns nullopt for a distribution that only FillInput can draw. INVALID_ARGUMENT: an expression
// of the distribution has no value.
[[nodiscard]] absl::StatusOr<std::optional<DrawPlan>> PlanDraw(const TensorSpec& tensor,
                                                               const TensorLayout& layout,
                                                               const CaseSpec& spec);

// Writes all values of an input. The device's kernels write the same values, except for differences
// in the rounding of logarithm and cosine.
void DrawByCounter(DataType dtype, const DrawPlan& plan, uint64_t seed, std::span<std::byte> data);

// One value in this many is replaced in altered inputs.
inline constexpr int64_t kAlteredEvery = 128;

// Replaces a few elements of `size` bytes by the elements of `other` at the same positions. `other`
// is as long as `data`.
void AlterByCounter(size_t size, uint64_t seed, std::span<const std::byte> other,
                    std::span<std::byte> data);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_DRAW_PLAN_H_
