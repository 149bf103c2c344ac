#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_POISON_PATTERNS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_POISON_PATTERNS_H_

#include <cstdint>

#include "common/base/secret_random.h"
#include "services/worker/cuda/judge/prepared_problem.h"

namespace kernelcast::worker {

// Words that fill outputs and workspace before a call, and that a candidate cannot predict. Not
// thread-safe.
class PoisonPatterns {
 public:
  // Returns a word that is NaN in every floating-point type when repeated, and varies between
  // calls.
  uint32_t NextNan();
  // Returns a word that could be a value of the output.
  uint32_t NextPlausible(const CudaExpected& expected);
  // For other choices that candidates can see.
  SecretRandom& random() { return random_; }

 private:
  SecretRandom random_{"patterns"};
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_POISON_PATTERNS_H_
