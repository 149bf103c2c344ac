#ifndef KERNELCAST_TESTS_BENCH_EXPERIMENTS_HELD_OUT_H_
#define KERNELCAST_TESTS_BENCH_EXPERIMENTS_HELD_OUT_H_

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/statistics.h"
#include "common/domain/candidate.h"
#include "services/forecaster/embedded/shared_model.h"
#include "services/forecaster/rpc/training_records.h"

namespace kernelcast::forecaster {

// Options of experiments with held-out models.
struct HeldOutOptions {
  std::string problems = KERNELCAST_SOURCE_DIR "/examples/problems";
  std::string target = std::string(kCudaTargetName);
  std::string records;  // empty: the target's records in the tree
  std::string hold_out = "family";
  std::string output;
  int seeds = 5;

  bool by_family() const { return hold_out == "family"; }
  // The data held out from a model for the problem: the problem, or its family.
  const std::string& Without(const MeasuredProblem& problem) const {
    return by_family() ? problem.family : problem.name;
  }
  bool Apart(const MeasuredProblem& a, const MeasuredProblem& b) const {
    return Without(a) != Without(b);
  }
};

void AddHeldOutOptions(CLI::App& app, HeldOutOptions& options, const std::string& seeds);

// The folder of the measured problems.
std::string RecordsFolder(const HeldOutOptions& options);

// Reads the measured problems. Errors are those of ReadMeasuredProblems.
[[nodiscard]] absl::StatusOr<std::vector<MeasuredProblem>> ReadMeasured(
    const HeldOutOptions& options);

// Shared models by held-out name, each trained once.
class HeldOutModels {
 public:
  // Both arguments must outlive this object.
  HeldOutModels(const HeldOutOptions& options, const std::vector<MeasuredProblem>& problems)
      : options_(options), problems_(problems) {}

  // Returns the model trained without the problem's held-out group. Errors are those of
  // SharedModel::Train, such as INVALID_ARGUMENT.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const SharedModel>> For(
      const MeasuredProblem& problem);

 private:
  const HeldOutOptions& options_;
  const std::vector<MeasuredProblem>& problems_;
  std::map<std::string, std::shared_ptr<const SharedModel>> models_;
};

// Writes the figures to the output option's file, if set, and creates its folder.
void WriteFigures(const HeldOutOptions& options, const std::string& figures);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_TESTS_BENCH_EXPERIMENTS_HELD_OUT_H_
