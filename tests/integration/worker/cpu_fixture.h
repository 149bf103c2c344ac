#ifndef KERNELCAST_TESTS_INTEGRATION_WORKER_CPU_FIXTURE_H_
#define KERNELCAST_TESTS_INTEGRATION_WORKER_CPU_FIXTURE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/cpu/cpu_target.h"
#include "tests/support/services.h"

namespace kernelcast::testing {

// Parses a problem folder, by its absolute path or that in the source tree. Fails the test if it is
// malformed.
Problem LoadProblem(const std::string& folder);

// Returns the content of a file in the source tree.
std::string SourceFile(const std::string& path);

// The cpu target with its own cache, the real compiler and runner, and short limits.
class CpuFixture {
 public:
  // `change` may change the options.
  explicit CpuFixture(const std::string& problem_folder = "tests/candidates/iterated_map",
                      const std::function<void(worker::CpuTargetOptions&)>& change = {});

  worker::CpuTarget& target() { return *target_; }
  const Problem& problem() const { return problem_; }
  static worker::CpuTargetOptions Options(const std::string& cache_directory);

  Candidate MakeCandidate(const std::string& source, std::vector<std::string> flags = {}) const;
  // Loads from tests/candidates/iterated_map/candidates, with "#define NAME value" lines prepended.
  Candidate Load(const std::string& name,
                 const std::vector<std::pair<std::string, std::string>>& defines = {}) const;

  // Compiles and measures. Requires the compile to succeed and the measurement to have an outcome.
  Measurement Measure(const Candidate& candidate, MeasureLevel level = MeasureLevel::kScreen);
  CompileError CompileFailure(const Candidate& candidate);

 private:
  TemporaryFolder folder_;
  Problem problem_;
  std::unique_ptr<worker::CpuTarget> target_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_INTEGRATION_WORKER_CPU_FIXTURE_H_
