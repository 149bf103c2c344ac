#ifndef KERNELCAST_COMMON_DOMAIN_LAUNCH_GEOMETRY_H_
#define KERNELCAST_COMMON_DOMAIN_LAUNCH_GEOMETRY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/expression.h"
#include "common/domain/problem.h"

namespace kernelcast {

// CUDA's limits on every device of compute capability 9 and later.
inline constexpr int64_t kMaxGrid[3] = {2147483647, 65535, 65535};
inline constexpr int64_t kMaxBlock[3] = {1024, 1024, 64};
static_assert(kMaxGrid[0] <= INT64_MAX / (kMaxGrid[1] * kMaxGrid[2]));  // for grid_blocks()
inline constexpr int64_t kMaxBlockThreads = 1024;
inline constexpr int64_t kMaxClusterBlocks = 16;
inline constexpr int64_t kMaxSharedMemoryBytes = 227 << 10;
// Maximum workspace of a candidate.
inline constexpr int64_t kMaxWorkspaceBytes = int64_t{4} << 30;

// Grid, block and cluster size of one launch.
struct LaunchGeometry {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t cluster[3] = {1, 1, 1};  // all 1 if the launch names none
  uint32_t shared_memory_bytes = 0;

  int64_t grid_blocks() const { return int64_t{grid[0]} * grid[1] * grid[2]; }
  int64_t block_threads() const { return int64_t{block[0]} * block[1] * block[2]; }
};

// Variables for the expressions of launches: integer tunables and axes. An axis hides a tunable of
// the same name.
Variables LaunchVariables(const std::vector<Tunable>& tunables, const AxisValues& axes);

// Whether the launch takes place: `when` is empty or not 0. INVALID_ARGUMENT names `field`.
[[nodiscard]] absl::StatusOr<bool> IsLaunched(const Launch& launch, const Variables& variables,
                                              const std::string& field);

// INVALID_ARGUMENT names the field below `field`, its value and what is allowed: an expression
// without a value or not a whole number within CUDA's limits, a block with too many threads, or a
// grid that is not divisible by its clusters.
[[nodiscard]] absl::StatusOr<LaunchGeometry> EvaluateGeometry(const Launch& launch,
                                                              const Variables& variables,
                                                              const std::string& field);

// INVALID_ARGUMENT: not a whole number from 0 to kMaxWorkspaceBytes. Empty text: 0.
[[nodiscard]] absl::StatusOr<int64_t> EvaluateWorkspaceBytes(const std::string& workspace_bytes,
                                                             const Variables& variables);

// Launch values that are known without a shape. A field is absent if it depends on axes or exceeds
// CUDA's limits.
struct ShapelessLaunch {
  std::optional<int64_t> block_threads;
  std::optional<int64_t> shared_memory_bytes;
};
ShapelessLaunch WithoutShape(const Launch& launch, const std::vector<Tunable>& tunables);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_LAUNCH_GEOMETRY_H_
