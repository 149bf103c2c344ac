#ifndef KERNELCAST_TESTS_BENCH_GPU_PTX_SOURCE_H_
#define KERNELCAST_TESTS_BENCH_GPU_PTX_SOURCE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "services/worker/cuda/compiler/compiler_process.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/cuda/compiler/header_archive.h"

namespace kernelcast::worker {

// Compiles candidates to PTX, and keeps it in a folder for later runs.
class PtxSource {
 public:
  // `folder`: where the PTX is kept; empty: nowhere.
  PtxSource(std::string folder, std::string architecture)
      : folder_(std::move(folder)), architecture_(std::move(architecture)) {}

  struct Compiled {
    std::string ptx;
    Cubin cubin;  // its kernels' registers and shared memory, from ptxas
  };
  // INTERNAL: the candidate does not compile.
  absl::StatusOr<Compiled> Compile(const std::string& problem, const Candidate& candidate);

 private:
  absl::Status Run(const Candidate& candidate, std::string& ptx, std::string& log);

  const std::string folder_;
  const std::string architecture_;
  std::unique_ptr<HeaderArchive> headers_;
  std::unique_ptr<CompilerProcess> process_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_TESTS_BENCH_GPU_PTX_SOURCE_H_
