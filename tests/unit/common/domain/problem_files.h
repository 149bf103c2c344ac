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

// SmallCudaProblem with a space of one template in Triton.
std::map<std::string, std::string> SmallTritonProblem();

std::vector<ProblemFile> AsFiles(const std::map<std::string, std::string>& files);

// The files with one text of one of them replaced.
std::map<std::string, std::string> WithReplaced(
    const std::string& path, const std::string& from, const std::string& to,
    std::map<std::string, std::string> files = SmallProblem());

// The message of the INVALID_ARGUMENT that parsing the files gives.
std::string ProblemError(const std::map<std::string, std::string>& files);

struct Edit {
  std::string from;
  std::string to;
  std::string message;  // prefix of the message
};

// Checks that each edit of a file gives its message, after the name of the file.
void CheckEdits(const std::string& path, const std::vector<Edit>& edits,
                const std::map<std::string, std::string>& files = SmallProblem());

}  // namespace kernelcast

#endif  // KERNELCAST_TESTS_UNIT_COMMON_DOMAIN_PROBLEM_FILES_H_
