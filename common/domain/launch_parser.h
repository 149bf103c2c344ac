#ifndef KERNELCAST_COMMON_DOMAIN_LAUNCH_PARSER_H_
#define KERNELCAST_COMMON_DOMAIN_LAUNCH_PARSER_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "common/domain/yaml_cursor.h"

namespace kernelcast {

// The names that a problem declares.
struct DeclaredNames {
  std::vector<std::string> axes;
  std::set<std::string> tensors;
};

// Launches of a device program, and the size of their workspace; empty: none.
struct DeclaredLaunches {
  std::vector<Launch> launches;
  std::string workspace_bytes;
};

// Parses `launches` and `workspace_bytes` of a mapping. Arguments are among the declared names or
// expressions over `variables`, as all other values are.
[[nodiscard]] absl::StatusOr<DeclaredLaunches> ParseLaunches(
    const Cursor& parent, const DeclaredNames& declared, const std::vector<std::string>& variables);

// The launches of a Triton template, and for each the tunables that give its warps and stages.
struct DeclaredTritonLaunches {
  DeclaredLaunches declared;
  std::vector<SpaceTemplate::TritonTunables> tunables;
};

// As ParseLaunches. num_warps and num_stages may name one of `tunables`, all of whose values must
// be allowed.
[[nodiscard]] absl::StatusOr<DeclaredTritonLaunches> ParseTritonLaunches(
    const Cursor& parent, const DeclaredNames& declared, const std::vector<std::string>& variables,
    const std::vector<SpaceTemplate::Dimension>& tunables);

// Parses a list of compiler flags.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ReadFlags(const Cursor& at);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_LAUNCH_PARSER_H_
