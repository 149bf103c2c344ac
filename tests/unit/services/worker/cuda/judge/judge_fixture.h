#ifndef KERNELCAST_TESTS_UNIT_SERVICES_WORKER_CUDA_JUDGE_JUDGE_FIXTURE_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_WORKER_CUDA_JUDGE_JUDGE_FIXTURE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/domain/problem.h"
#include "services/worker/core/options.h"
#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/judge_kernels.h"
#include "services/worker/cuda/judge/prepared_problem.h"
#include "services/worker/cuda/judge/runner_client.h"
#include "tests/fakes/cuda/fake_cuda.h"

namespace kernelcast::testing {

// Advances on each read, so that time-based waits end.
class TickingClock final : public Clock {
 public:
  int64_t MonotonicNs() const override { return now_ns_ += kTickNs; }
  int64_t WallNs() const override { return MonotonicNs(); }

 private:
  static constexpr int64_t kTickNs = 10'000;
  mutable std::atomic<int64_t> now_ns_ = 1'000'000'000;
};

// y = 2 x + 1 for the fake driver: reference and oracle are the options of an "affine" kernel.
inline constexpr const char* kMapReference = "scale=2 add=1 ns=100000 jitter=0.01";
inline constexpr const char* kMapOracle = "scale=2 add=1 double=1";
Problem MapProblem(const std::string& name = "fake_map");
worker::CudaProgram MapProgram(const std::string& options);

// The protocol's own values, except for those that make tests slow.
worker::MeasureOptions QuickOptions();

worker::CudaRunnerOptions FakeRunner(std::vector<std::string> arguments = {});

// The judge's side of a fresh fake driver. Its destructor checks that nothing is held and nothing
// was misused.
class FakeJudge {
 public:
  FakeJudge();
  ~FakeJudge();

  worker::CudaDevice& device() { return *device_; }
  worker::JudgeKernels& kernels() { return *kernels_; }
  std::unique_ptr<worker::CudaRunner> StartRunner(std::vector<std::string> arguments = {});
  absl::StatusOr<std::unique_ptr<worker::CudaPreparedProblem>> Prepare(
      const Problem& problem, worker::CudaRunner& runner,
      const std::string& reference = kMapReference, const std::string& oracle = kMapOracle);

  const worker::CancelToken cancel;

 private:
  std::unique_ptr<worker::CudaDevice> device_;
  std::unique_ptr<worker::JudgeKernels> kernels_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_WORKER_CUDA_JUDGE_JUDGE_FIXTURE_H_
