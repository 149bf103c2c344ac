#ifndef KERNELCAST_TESTS_UNIT_SERVICES_WORKER_CUDA_TARGET_TASK_SUBJECT_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_WORKER_CUDA_TARGET_TASK_SUBJECT_H_

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "services/worker/cuda/target/cuda_measurer.h"
#include "tests/unit/services/worker/cuda/judge/judge_fixture.h"

namespace kernelcast::testing {

// Warns where the tests' interpreter has no PyTorch; nothing can be tested then.
bool HaveTaskPython();

std::string TextOf(const MeasureOutcome& outcome);

// Judges Python tasks on the fake driver, whose memory is the processor's. Its time is not the
// host's, so that no figure means anything.
class TaskSubject {
 public:
  // The machine may be busy: only a candidate that never finishes loading needs a shorter limit.
  explicit TaskSubject(int64_t load_limit_ns = 40'000'000'000);
  // Checks that no device memory is left.
  ~TaskSubject();

  absl::Status Take(const Problem& problem);
  absl::StatusOr<MeasureOutcome> TryMeasure(const std::string& program,
                                            worker::LoadedCandidate loaded = {},
                                            MeasureLevel level = MeasureLevel::kScreen);
  MeasureOutcome Measure(const std::string& source);
  template <class Outcome>
  Outcome MeasureAs(const std::string& source) {
    // The host's clock, which a busy machine holds up, has to agree with the driver's.
    MeasureOutcome outcome = Measure(source);
    for (int i = 1; i < kAttempts && std::holds_alternative<EnvironmentUnstable>(outcome); ++i) {
      outcome = Measure(source);
    }
    INFO(source << TextOf(outcome));
    REQUIRE(std::holds_alternative<Outcome>(outcome));
    return std::get<Outcome>(outcome);
  }
  // Device code: the kernels of a fake cubin (fake_kernels.h), and their launches.
  struct DeviceCode {
    std::vector<std::string> kernels;
    std::vector<Launch> launches;
    std::string workspace_bytes = {};
  };
  absl::StatusOr<MeasureOutcome> TryMeasureCode(const DeviceCode& code,
                                                MeasureLevel level = MeasureLevel::kScreen);
  MeasureOutcome MeasureCode(const DeviceCode& code, MeasureLevel level = MeasureLevel::kScreen);
  worker::Profile ProfileCode(const DeviceCode& code);
  // Profiles with the fake CUPTI.
  worker::Profile Profile(const std::string& source);
  // Loads the candidate before it is measured, as the worker does while others are measured.
  MeasureOutcome MeasureLoaded(const std::string& source);
  // At the final level, in a process that has loaded `loaded` instead.
  MeasureOutcome MeasureFinal(const std::string& source, const std::string& loaded);
  const worker::PythonTaskPrograms& task() const { return *task_; }
  // How often a lease was acquired, and how many are held.
  int acquired() const { return acquired_; }
  int held() const { return *held_; }
  // How often other work of the worker was stopped for a judgement.
  int stopped() const { return stopped_; }

 private:
  worker::CudaPrograms ProgramsOf(const std::string& program) const;
  worker::CudaPrograms ProgramsOf(const DeviceCode& code) const;
  worker::AcquireLease Acquire();
  MeasureOutcome MeasureLoaded(const std::string& source, const std::string& loaded,
                               MeasureLevel level);

  static constexpr int kAttempts = 6;

  const int64_t load_limit_ns_;
  TickingClock clock_;
  worker::DeviceMonitor monitor_{nullptr, "GPU-1", clock_};
  std::unique_ptr<worker::CudaMeasurer> measurer_;
  worker::CudaRunnerOptions python_;
  int acquired_ = 0;
  int stopped_ = 0;
  // Shared with the thread that ends a process.
  std::shared_ptr<std::atomic<int>> held_ = std::make_shared<std::atomic<int>>(0);
  Problem problem_;
  // Shared with the measurer.
  std::shared_ptr<const worker::PythonTaskPrograms> task_;
};

// The checks passed, whatever timing makes of the fake driver's time.
void CheckRight(const MeasureOutcome& outcome);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_WORKER_CUDA_TARGET_TASK_SUBJECT_H_
