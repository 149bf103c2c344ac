#ifndef KERNELCAST_TESTS_BENCH_WORKER_MEASURED_ESTIMATES_H_
#define KERNELCAST_TESTS_BENCH_WORKER_MEASURED_ESTIMATES_H_

#include <string>

#include "absl/status/status.h"

namespace kernelcast::testing {

struct MeasuredEstimatesOptions {
  std::string triton_folder;  // of Triton candidates, as examples/triton
  std::string python;
  std::string cuda_home;     // "": the machine's
  std::string architecture;  // of the GPU that is estimated, where there is none
  std::string only;          // part of TASK/CANDIDATE; "": all
  std::string file;          // lines of MeasuredExample
};

// Measures the Triton candidates, the candidates of examples/tasks and their variants, and appends
// a line to the file for each, at once. UNAVAILABLE: this machine cannot measure them.
[[nodiscard]] absl::Status MeasureExamples(const MeasuredEstimatesOptions& options);

// Estimates the measured candidates of the file without a GPU: Triton candidates on the virtual
// GPU, Python candidates by recording them. Prints both times, the rank correlation of each task,
// the errors of the estimated speedups, and how many Python candidates were recorded.
[[nodiscard]] absl::Status CompareWithMeasured(const MeasuredEstimatesOptions& options);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_BENCH_WORKER_MEASURED_ESTIMATES_H_
