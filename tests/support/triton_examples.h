#ifndef KERNELCAST_TESTS_SUPPORT_TRITON_EXAMPLES_H_
#define KERNELCAST_TESTS_SUPPORT_TRITON_EXAMPLES_H_

#include <string>
#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/problem.h"

namespace kernelcast::testing {

struct TritonExample {
  std::string problem;  // name of the folder
  Candidate candidate;
};

// The candidates of a folder such as examples/triton, which has a folder per problem of
// examples/problems; sorted. Throws std::runtime_error if one cannot be read.
std::vector<TritonExample> ReadTritonExamples(const std::string& folder);

// A problem of examples/problems. Throws as above.
Problem ReadExampleProblem(const std::string& name);

// The interpreter with Triton that scripts/setup.sh installs, or that KERNELCAST_PYTHON names. ""
// if there is none.
std::string TritonPythonOfTests();

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_SUPPORT_TRITON_EXAMPLES_H_
