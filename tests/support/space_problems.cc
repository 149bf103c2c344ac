#include "tests/support/space_problems.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "common/base/status.h"

namespace kernelcast::testing {

namespace fs = std::filesystem;

absl::StatusOr<std::vector<Problem>> ReadSpaceProblems(const std::string& root,
                                                       const std::vector<std::string>& only,
                                                       const std::string& target) {
  std::set<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename();
    const bool wanted = only.empty() || std::ranges::find(only, name) != only.end();
    if (wanted && fs::exists(entry.path() / "problem.yaml")) folders.insert(entry.path());
  }
  std::vector<Problem> problems;
  for (const fs::path& folder : folders) {
    KC_ASSIGN_OR_RETURN(auto files, ReadProblemFolder(folder));
    KC_ASSIGN_OR_RETURN(Problem problem, ParseProblem(std::move(files)));
    const auto found = problem.targets.find(target);
    if (found != problem.targets.end() && found->second.space) {
      problems.push_back(std::move(problem));
    }
  }
  return problems;
}

}  // namespace kernelcast::testing
