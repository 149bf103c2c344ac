#ifndef KERNELCAST_TESTS_BENCH_WORKER_CUDA_CHEATS_H_
#define KERNELCAST_TESTS_BENCH_WORKER_CUDA_CHEATS_H_

#include <string>
#include <vector>

#include "common/domain/problem.h"
#include "tests/bench/worker/judge_mutants.h"

namespace kernelcast::testing {

// The reference for the cuda target with kernels before and after its launches.
//
// These kernels know: the inputs `in0`, ... of `bytes0`, ... bytes; the first output `out0` of `n`
// elements, its last dimension `last`, and the last dimension of the first input, `width`; `kept`,
// memory of the size of that output in the workspace; their own number `me` of `all` threads; and
// SIZE, the bytes of an element, BENCH, `n` at the bench shape, and FLOATS, whether the output is
// floating-point.
class CudaWrapper {
 public:
  enum Threads { kOne, kWide };

  explicit CudaWrapper(const Problem& problem);

  // Adds a kernel that runs after the launches added so far.
  void Add(const std::string& name, const std::string& body, Threads threads);
  // Adds the reference's launches.
  void AddReference();
  // Source in front of everything.
  void Declare(const std::string& source) { declarations_ += source; }
  // Source at the start of each kernel of the reference.
  void AtKernels(const std::string& source) { entry_ += source; }

  Mutant Make(const std::string& kind, bool may_be_honest) const;

 private:
  const Problem& problem_;
  const Candidate reference_;
  std::string parameters_;
  std::vector<std::string> arguments_;
  std::string workspace_bytes_;
  std::string declarations_;
  std::string entry_;
  std::string kernels_;
  std::vector<Launch> launches_;
};

// Whether kinds that are slow to judge, because they end the judge's process, apply.
bool IsOneOfFew(const Problem& problem);

// Kernels that skip, defer, batch or remember work once they are timed, or behave otherwise then.
void AddCudaCheats(const Problem& problem, std::vector<Mutant>& mutants);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_BENCH_WORKER_CUDA_CHEATS_H_
