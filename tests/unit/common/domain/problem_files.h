#ifndef KERNELCAST_TESTS_UNIT_COMMON_DOMAIN_PROBLEM_FILES_H_
#define KERNELCAST_TESTS_UNIT_COMMON_DOMAIN_PROBLEM_FILES_H_

#include <map>
#include <string>
#include <vector>

#include "common/domain/problem.h"

namespace kernelcast {

// A small complete problem, path to content, for tests that change one part.
std::map<std::string, std::string> SmallProblem();

// The same operation with device CUDA only.
std::map<std::string, std::string> SmallCudaProblem();

std::vector<ProblemFile> AsFiles(const std::map<std::string, std::string>& files);

}  // namespace kernelcast

#endif  // KERNELCAST_TESTS_UNIT_COMMON_DOMAIN_PROBLEM_FILES_H_
