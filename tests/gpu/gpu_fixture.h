#ifndef KERNELCAST_TESTS_GPU_GPU_FIXTURE_H_
#define KERNELCAST_TESTS_GPU_GPU_FIXTURE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/cuda/target/cuda_target.h"
#include "tests/support/services.h"

namespace kernelcast::testing {

Problem LoadGpuProblem(const std::string& folder);

// The cuda target with the real compiler, runner and device.
class GpuFixture {
 public:
  explicit GpuFixture(const std::string& problem_folder, worker::MeasureOptions options);
  GpuFixture(Problem problem, worker::MeasureOptions options);

  worker::CudaTarget& target() { return *target_; }
  const Problem& problem() const { return problem_; }
  void set_problem(Problem problem) { problem_ = std::move(problem); }

  // `body` after the lines of `defines`, launched like the problem's reference by default.
  Candidate MakeCandidate(const std::string& body,
                          const std::vector<std::pair<std::string, std::string>>& defines = {},
                          std::vector<Launch> launches = {}) const;
  // Compiles and measures. Requires the compile to succeed and the measurement to have an outcome.
  // Measures again if the environment was unstable.
  Measurement Measure(const Candidate& candidate, MeasureLevel level = MeasureLevel::kScreen);
  // Compiles, which must succeed, and measures once.
  absl::StatusOr<Measurement> TryMeasure(const Candidate& candidate, MeasureLevel level);
  // Compiles, which must succeed, and profiles without measuring first.
  worker::Profile Profile(const Candidate& candidate);

 private:
  Artifact Compile(const Candidate& candidate);

  TemporaryFolder folder_;
  Problem problem_;
  std::unique_ptr<worker::CudaTarget> target_;
};

// The reason why this machine cannot measure, if any. ctest skips a test that prints "skipped:
// REASON".
std::optional<std::string> NoGpu();

// The reason why this machine cannot read hardware counters, if any.
std::optional<std::string> NoCounters();

// A fixture of tests/gpu/candidates/cuda_copy that tests share.
GpuFixture& CopyFixture();

// Limits for candidates that hang.
worker::MeasureOptions ShortLimits();

// The reason why this machine's worker lacks a tool, as it says it, starting with `what`.
std::optional<std::string> MissingTool(const std::string& what);

#define KERNELCAST_NEEDS_GPU()                                      \
  if (const auto reason = ::kernelcast::testing::NoGpu(); reason) { \
    std::printf("skipped: %s\n", reason->c_str());                  \
    SUCCEED("skipped: " << *reason);                                \
    return;                                                         \
  }

#define KERNELCAST_NEEDS_COUNTERS()                                      \
  if (const auto reason = ::kernelcast::testing::NoCounters(); reason) { \
    std::printf("skipped: %s\n", reason->c_str());                       \
    SUCCEED("skipped: " << *reason);                                     \
    return;                                                              \
  }

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_GPU_GPU_FIXTURE_H_
