#include "tests/support/verdict_trials.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/services.h"

namespace kernelcast::testing {

std::vector<VerdictTrial> VerdictTrials(const Problem& problem, const Space& space,
                                        const ExpectedVerdicts& verdicts, size_t wrong_points) {
  // By template and exception.
  std::map<std::pair<int, const TemplateVerdicts::Exception*>, std::vector<SpacePoint>> groups;
  for (const SpacePoint& point : EnumeratePoints(space)) {
    groups[{point.template_index, ExceptionAt(verdicts, space, point)}].push_back(point);
  }
  std::vector<VerdictTrial> trials;
  for (const auto& [rule, points] : groups) {
    const auto& [template_index, exception] = rule;
    const ExpectedVerdict verdict =
        exception != nullptr ? exception->verdict : verdicts[template_index].verdict;
    const size_t count =
        verdict == ExpectedVerdict::kOk ? 1 : std::min(wrong_points, points.size());
    for (size_t i = 0; i < count; ++i) {
      // Spread from first to last; a single one is in the middle.
      const size_t at = count == 1 ? points.size() / 2 : i * (points.size() - 1) / (count - 1);
      VerdictTrial trial;
      trial.candidate = CandidateFromPoint(space, points[at], problem.problem_id);
      trial.expected = verdict;
      trial.description = problem.name;
      for (const Tunable& tunable : trial.candidate.tunables) {
        absl::StrAppend(&trial.description, tunable.name == "TEMPLATE" ? "/" : " ",
                        tunable.name == "TEMPLATE" ? "" : tunable.name + "=", tunable.value);
      }
      trials.push_back(std::move(trial));
    }
  }
  return trials;
}

std::vector<std::string> ProblemsWithVerdicts(std::string_view target) {
  const std::string file = absl::StrCat("space/expected_verdicts_", std::string(target), ".yaml");
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("examples/problems"))) {
    if (std::filesystem::exists(entry.path() / file)) {
      folders.push_back(absl::StrCat("examples/problems/", entry.path().filename().string()));
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

bool Satisfies(ExpectedVerdict expected, std::string_view outcome) {
  if (expected == ExpectedVerdict::kRace) return outcome == "ok" || outcome == "wrong_result";
  return outcome == Name(expected);
}

}  // namespace kernelcast::testing
