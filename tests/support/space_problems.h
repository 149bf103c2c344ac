#ifndef KERNELCAST_TESTS_SUPPORT_SPACE_PROBLEMS_H_
#define KERNELCAST_TESTS_SUPPORT_SPACE_PROBLEMS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"

namespace kernelcast::testing {

// Reads the problems in the folders of `root` that have a template space for the target, in the
// order of the folders' names. `only`: names of folders; empty: all.
[[nodiscard]] absl::StatusOr<std::vector<Problem>> ReadSpaceProblems(
    const std::string& root, const std::vector<std::string>& only, const std::string& target);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_SPACE_PROBLEMS_H_
