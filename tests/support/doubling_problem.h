#ifndef KERNELCAST_TESTS_E2E_DOUBLING_PROBLEM_H_
#define KERNELCAST_TESTS_E2E_DOUBLING_PROBLEM_H_

#include <map>
#include <string>

#include "tests/support/services.h"

namespace kernelcast::testing {

// Doubles its input as often as the C++ expression `repeats` of the length `n` says, so that
// kernels differ by factors.
std::string DoublingKernel(const std::string& repeats);

// A problem for the target `cpu` that doubles a vector of 16384, with a held-out bench shape.
struct DoublingProblem {
  std::string name;
  std::string family;
  std::string reference_repeats;
  std::string templates;                       // of space/cpu.yaml, as YAML
  std::map<std::string, std::string> kernels;  // sources of the templates by file name
};
// Writes the problem and returns its folder.
std::string WriteProblem(const TemporaryFolder& home, const DoublingProblem& problem);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_E2E_DOUBLING_PROBLEM_H_
