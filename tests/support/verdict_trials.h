#ifndef KERNELCAST_TESTS_SUPPORT_VERDICT_TRIALS_H_
#define KERNELCAST_TESTS_SUPPORT_VERDICT_TRIALS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/expected_verdicts.h"
#include "common/domain/problem.h"

namespace kernelcast::testing {

// A point of a space whose verdict is checked.
struct VerdictTrial {
  Candidate candidate;
  std::string description;  // "cross_entropy/online BLOCK=256 UNROLL=4"
  ExpectedVerdict expected = ExpectedVerdict::kOk;
};

// Per template one right point, and at most `wrong_points` of its others for each exception.
// Deterministic.
std::vector<VerdictTrial> VerdictTrials(const Problem& problem, const Space& space,
                                        const ExpectedVerdicts& verdicts, size_t wrong_points);

// The example problems with expected verdicts for a target, as folders in the source tree.
std::vector<std::string> ProblemsWithVerdicts(std::string_view target);

// Whether an outcome's name, or "compile_error", is the expected one.
bool Satisfies(ExpectedVerdict expected, std::string_view outcome);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_VERDICT_TRIALS_H_
