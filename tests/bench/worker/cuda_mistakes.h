#ifndef KERNELCAST_TESTS_BENCH_WORKER_CUDA_MISTAKES_H_
#define KERNELCAST_TESTS_BENCH_WORKER_CUDA_MISTAKES_H_

#include <string>
#include <vector>

#include "common/domain/problem.h"

namespace kernelcast::testing {

// A reference for the cuda target with a mistake in its source.
struct MistakenSource {
  std::string kind;
  std::string source;
  bool replaced = false;  // whether the reference contains what the mistake replaces
};

// Inserts `text` at the start of the body of each kernel that the launches name.
std::string InsertAtKernels(std::string source, const std::vector<Launch>& launches,
                            const std::string& text);

// The mistakes that apply to the problem's reference: dropped barriers, wrong bounds, indices,
// signs and types.
std::vector<MistakenSource> CudaMistakes(const Problem& problem);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_BENCH_WORKER_CUDA_MISTAKES_H_
