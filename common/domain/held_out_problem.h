#ifndef KERNELCAST_COMMON_DOMAIN_HELD_OUT_PROBLEM_H_
#define KERNELCAST_COMMON_DOMAIN_HELD_OUT_PROBLEM_H_

#include <optional>
#include <string_view>

#include "common/domain/problem.h"

namespace kernelcast {

// The problem with a target's held-out bench shapes in place of its bench shapes. Kernels measured
// on it are timed at shapes that they were not searched on.
//
// The shapes are the held_out_bench_shapes of problem.yaml. Without them, and if `seed` is not
// empty, up to kDrawnHeldOutShapes are drawn: axes whose bench size lies in the range `held_out`
// get a size of this range between half and twice the bench size, the others keep theirs. The same
// seed draws the same shapes. Of Python tasks, only those of flashinfer-bench have drawn shapes
// (DrawWorkloads), which are also what kernels are checked at.
//
// Empty: none are declared and none can be drawn.
std::optional<Problem> HeldOutProblem(const Problem& problem, std::string_view target,
                                      std::string_view seed);

inline constexpr int kDrawnHeldOutShapes = 3;

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_HELD_OUT_PROBLEM_H_
