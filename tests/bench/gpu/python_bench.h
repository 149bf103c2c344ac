#ifndef KERNELCAST_TESTS_BENCH_GPU_PYTHON_BENCH_H_
#define KERNELCAST_TESTS_BENCH_GPU_PYTHON_BENCH_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"
#include "nlohmann/json.hpp"
#include "services/worker/cuda/target/cuda_target.h"
#include "tests/support/services.h"

namespace kernelcast::testing {

// A target that judges tasks of PyTorch and candidates in Triton. An UnavailableError if this
// machine cannot. Prints the device.
absl::StatusOr<std::unique_ptr<worker::CudaTarget>> MakePythonTarget(const std::string& python,
                                                                     const std::string& cache,
                                                                     int compile_processes);

// Candidates that are compiled on several threads, and announced to the target in the order in
// which they will be measured, as the worker does.
class CompileAhead {
 public:
  struct Compiled {
    size_t index;  // in the candidates
    absl::StatusOr<Artifact> artifact;
  };

  // Without `announce`, candidates are loaded when they are measured. All references must outlive
  // this object.
  CompileAhead(worker::CudaTarget& target, const Problem& problem,
               const std::vector<Candidate>& candidates, int threads, bool announce = true,
               MeasureLevel level = MeasureLevel::kScreen);

  // The next one that is compiled; waits for it. To be called once for each candidate.
  Compiled Next();

 private:
  void Work();

  worker::CudaTarget& target_;
  const Problem& problem_;
  const std::vector<Candidate>& candidates_;
  const bool announce_;
  const MeasureLevel level_;
  std::atomic<size_t> next_ = 0;
  absl::Mutex mutex_;
  std::deque<Compiled> compiled_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;
};

struct KernelBenchOptions {
  std::string python;
  std::string folder;  // a clone of KernelBench's repository
  int trials = 100;
  // How many at once, each candidate in a process of its own. 0: all in one, one after the other.
  int processes = 0;
  int limit_s = 60;      // for each candidate with a process of its own
  bool explain = false;  // only if processes is 0
};

// The answers of kernelbench_eval.py for the candidates of a task, in their order. For each the
// names that it documents.
absl::StatusOr<std::vector<nlohmann::json>> RunKernelBench(const KernelBenchOptions& options,
                                                           const std::string& task,
                                                           const std::vector<std::string>& sources);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_BENCH_GPU_PYTHON_BENCH_H_
