#ifndef KERNELCAST_TESTS_SUPPORT_VERDICT_TRIALS_H_
#define KERNELCAST_TESTS_SUPPORT_VERDICT_TRIALS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/expected_verdicts.h"
#include "common/domain/problem.h"

namespace kernelcast::testing {

// A point of a space whose verdict is looked at.
struct VerdictTrial {
  Candidate candidate;
  std::string description;  // "cross_entropy/online BLOCK=256 UNROLL=4"
  ExpectedVerdict expected = ExpectedVerdict::kOk;
};

// Of each template's right points one, and of its others at most `wrong_points`, for every
// exception anew. Deterministic.
std::vector<VerdictTrial> VerdictTrials(const Problem& problem, const Space& space,
                                        const ExpectedVerdicts& verdicts, size_t wrong_points);

// The example problems with expected verdicts for a target, by the folder below the sources.
std::vector<std::string> ProblemsWithVerdicts(std::string_view target);

// Whether the name of an outcome, or "compile_error", is what was expected.
bool Satisfies(ExpectedVerdict expected, std::string_view outcome);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_VERDICT_TRIALS_H_
