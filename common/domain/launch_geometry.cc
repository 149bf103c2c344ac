#include "common/domain/launch_geometry.h"

#include <charconv>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

std::vector<std::string> Names(const Variables& variables) {
  std::vector<std::string> names;
  names.reserve(variables.size());
  for (const auto& [name, value] : variables) names.push_back(name);
  return names;
}

absl::StatusOr<int64_t> Evaluate(const std::string& text, const Variables& variables, int64_t low,
                                 int64_t high, const std::string& field) {
  const absl::StatusOr<Expression> expression = Expression::Parse(text, Names(variables));
  const absl::StatusOr<int64_t> value = expression.ok()
                                            ? expression->EvaluateInteger(variables, low, high)
                                            : absl::StatusOr<int64_t>(expression.status());
  if (value.ok()) return value;
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value.status().message()));
}

absl::Status EvaluateExtent(const std::vector<std::string>& texts, const Variables& variables,
                            std::span<const int64_t, 3> limits, const std::string& field,
                            std::span<uint32_t, 3> extent) {
  if (texts.size() > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", texts.size(), " entries; at most 3 are allowed"));
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    KC_ASSIGN_OR_RETURN(const int64_t size, Evaluate(texts[i], variables, 1, limits[i],
                                                     absl::StrCat(field, "[", i, "]")));
    extent[i] = static_cast<uint32_t>(size);
  }
  return absl::OkStatus();
}

absl::Status EvaluateBlock(const Launch& launch, const Variables& variables,
                           const std::string& field, LaunchGeometry& geometry) {
  KC_RETURN_IF_ERROR(
      EvaluateExtent(launch.block, variables, kMaxBlock, field + ".block", geometry.block));
  if (geometry.block_threads() > kMaxBlockThreads) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".block: ", geometry.block_threads(),
                                                   " threads; at most ", kMaxBlockThreads,
                                                   " are allowed"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> EvaluateSharedMemory(const Launch& launch, const Variables& variables,
                                             const std::string& field) {
  if (launch.shared_memory_bytes.empty()) return 0;
  return Evaluate(launch.shared_memory_bytes, variables, 0, kMaxSharedMemoryBytes,
                  field + ".shared_memory_bytes");
}

}  // namespace

Variables LaunchVariables(const std::vector<Tunable>& tunables, const AxisValues& axes) {
  Variables variables(axes.begin(), axes.end());
  for (const auto& [name, text] : tunables) {
    if (!IsDecimalInteger(text)) continue;
    int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    variables.emplace(name, static_cast<double>(value));
  }
  return variables;
}

absl::StatusOr<bool> IsLaunched(const Launch& launch, const Variables& variables,
                                const std::string& field) {
  if (launch.when.empty()) return true;
  const absl::StatusOr<Expression> expression = Expression::Parse(launch.when, Names(variables));
  const absl::StatusOr<double> value = expression.ok()
                                           ? expression->Evaluate(variables)
                                           : absl::StatusOr<double>(expression.status());
  if (value.ok()) return *value != 0;
  return absl::InvalidArgumentError(absl::StrCat(field, ".when: ", value.status().message()));
}

absl::StatusOr<LaunchGeometry> EvaluateGeometry(const Launch& launch, const Variables& variables,
                                                const std::string& field) {
  constexpr int64_t kMaxCluster[3] = {kMaxClusterBlocks, kMaxClusterBlocks, kMaxClusterBlocks};
  LaunchGeometry geometry;
  KC_RETURN_IF_ERROR(
      EvaluateExtent(launch.grid, variables, kMaxGrid, field + ".grid", geometry.grid));
  KC_RETURN_IF_ERROR(EvaluateBlock(launch, variables, field, geometry));
  KC_RETURN_IF_ERROR(
      EvaluateExtent(launch.cluster, variables, kMaxCluster, field + ".cluster", geometry.cluster));
  const int64_t cluster_blocks =
      int64_t{geometry.cluster[0]} * geometry.cluster[1] * geometry.cluster[2];
  if (cluster_blocks > kMaxClusterBlocks) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".cluster: ", cluster_blocks,
                                                   " blocks; at most ", kMaxClusterBlocks,
                                                   " are allowed"));
  }
  for (size_t i = 0; i < 3; ++i) {
    if (geometry.grid[i] % geometry.cluster[i] != 0) {
      return absl::InvalidArgumentError(absl::StrCat(field, ".grid[", i, "]: ", geometry.grid[i],
                                                     " is not a multiple of the cluster's ",
                                                     geometry.cluster[i]));
    }
  }
  KC_ASSIGN_OR_RETURN(const int64_t shared, EvaluateSharedMemory(launch, variables, field));
  geometry.shared_memory_bytes = static_cast<uint32_t>(shared);
  return geometry;
}

absl::StatusOr<int64_t> EvaluateWorkspaceBytes(const std::string& workspace_bytes,
                                               const Variables& variables) {
  if (workspace_bytes.empty()) return 0;
  return Evaluate(workspace_bytes, variables, 0, kMaxWorkspaceBytes, "workspace_bytes");
}

ShapelessLaunch WithoutShape(const Launch& launch, const std::vector<Tunable>& tunables) {
  const Variables variables = LaunchVariables(tunables, {});
  ShapelessLaunch known;
  LaunchGeometry geometry;
  if (EvaluateBlock(launch, variables, "", geometry).ok()) {
    known.block_threads = geometry.block_threads();
  }
  const absl::StatusOr<int64_t> shared = EvaluateSharedMemory(launch, variables, "");
  if (shared.ok()) known.shared_memory_bytes = *shared;
  return known;
}

}  // namespace kernelcast
