#ifndef KERNELCAST_TESTS_BENCH_WORKER_JUDGE_MUTANTS_H_
#define KERNELCAST_TESTS_BENCH_WORKER_JUDGE_MUTANTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"

namespace kernelcast::testing {

// A wrong, cheating or honest variant of a problem's reference.
struct Mutant {
  std::string kind;
  Candidate candidate;
  // True if it may be measured at the reference's speed: a cheat that gains nothing counts as
  // caught. Otherwise it is wrong and must not be measured.
  bool may_be_honest = false;
};

// Wrong kernels and cheats that wrap the reference. The same for every problem except for names.
std::vector<Mutant> CpuMutants(const Problem& problem);
// Correct wrappers of the reference.
std::vector<Mutant> HonestCpuVariants(const Problem& problem);

// Wrong kernels and cheats for the cuda target: mistakes in the reference's source and launches,
// kernels that damage its outputs, and kernels that let it skip work. Kinds that cannot be wrong
// for the problem are left out.
std::vector<Mutant> CudaMutants(const Problem& problem);
// Cheats in host code that launches the reference, for nvcc. None for problems with a workspace,
// several launches or narrow types.
std::vector<Mutant> CudaHostMutants(const Problem& problem);
// The reference, and at most `count - 1` points of the cuda space that are expected to be right,
// spread over the space. `folder` is the problem's. INVALID_ARGUMENT: the expected verdicts cannot
// be read.
[[nodiscard]] absl::StatusOr<std::vector<Mutant>> HonestCudaKernels(const Problem& problem,
                                                                    const std::string& folder,
                                                                    size_t count);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_BENCH_WORKER_JUDGE_MUTANTS_H_
