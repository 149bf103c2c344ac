#ifndef KERNELCAST_TESTS_BENCH_SEARCH_KERNEL_POOL_H_
#define KERNELCAST_TESTS_BENCH_SEARCH_KERNEL_POOL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "kernelcast/v1/orchestrator.pb.h"

namespace kernelcast::testing {

// A recorded kernel in the form in which a model writes it: without tunables, their values in the
// launches.
struct PoolKernel {
  std::string answer;  // of the model
  std::string candidate_id;
  v1::ExportRecord record;  // of this candidate
};

// The measured kernels of a problem, right and wrong, fast and slow.
struct KernelPool {
  Problem problem;
  std::vector<PoolKernel> kernels;
  size_t left_out = 0;  // a model cannot write them: some of their launches depend on the shape

  // Writes the records for a worker's --replay. Times of more than 2.5 times the median contain the
  // preparation of the problem; they are replaced by the median.
  [[nodiscard]] absl::Status WriteRecords(const std::string& path) const;
};

// Reads PROBLEM.jsonl.gz of `records`. `problems` is the folder of the problems.
[[nodiscard]] absl::StatusOr<KernelPool> ReadKernelPool(const std::string& problems,
                                                        const std::string& records,
                                                        const std::string& name,
                                                        const std::string& target);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_BENCH_SEARCH_KERNEL_POOL_H_
