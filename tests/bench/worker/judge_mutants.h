#ifndef KERNELCAST_TESTS_BENCH_WORKER_JUDGE_MUTANTS_H_
#define KERNELCAST_TESTS_BENCH_WORKER_JUDGE_MUTANTS_H_

#include <string>
#include <vector>

#include "common/domain/problem.h"

namespace kernelcast::testing {

// A variant of a problem's reference for the cpu target.
struct Mutant {
  std::string name;
  std::string source;
  // True if it may be measured at the reference's speed: a cheat that gains nothing counts as
  // caught. Otherwise it is wrong and must not be measured.
  bool may_be_honest = false;
};

// Wrong kernels and cheats that wrap the reference. The same for every problem except for names.
std::vector<Mutant> CpuMutants(const Problem& problem);
// Correct wrappers of the reference.
std::vector<Mutant> HonestCpuVariants(const Problem& problem);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_BENCH_WORKER_JUDGE_MUTANTS_H_
