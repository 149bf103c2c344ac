#ifndef KERNELCAST_TESTS_SUPPORT_KERNEL_EXAMPLES_H_
#define KERNELCAST_TESTS_SUPPORT_KERNEL_EXAMPLES_H_

#include <string>
#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/problem.h"

namespace kernelcast::testing {

struct KernelExample {
  std::string problem;  // name of the folder
  Candidate candidate;
};

// The candidates of a folder such as examples/triton, which has a folder per problem of
// examples/problems; sorted. Throws std::runtime_error if one cannot be read.
std::vector<KernelExample> ReadKernelExamples(const std::string& folder);

// The candidate for the cuda target in a source file, with its description next to it. Throws as
// above.
Candidate ReadExampleCandidate(const std::string& source_file, const std::string& problem_id);

// A problem of examples/problems. Throws as above.
Problem ReadExampleProblem(const std::string& name);

// The interpreter with a compiler that scripts/setup.sh installs to .setup/`compiler`, or that
// KERNELCAST_PYTHON names. "": there is none.
std::string PythonOfTests(const std::string& compiler);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_KERNEL_EXAMPLES_H_
