#ifndef KERNELCAST_COMMON_BASE_CHECKED_MATH_H_
#define KERNELCAST_COMMON_BASE_CHECKED_MATH_H_

#include <optional>

namespace kernelcast {

// For sizes that come from outside. Nothing where the result does not fit the type.
template <class Integer>
std::optional<Integer> CheckedMultiply(Integer a, Integer b) {
  Integer product{};
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_CHECKED_MATH_H_
