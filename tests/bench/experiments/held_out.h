#ifndef KERNELCAST_TESTS_BENCH_EXPERIMENTS_HELD_OUT_H_
#define KERNELCAST_TESTS_BENCH_EXPERIMENTS_HELD_OUT_H_

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "services/forecaster/embedded/shared_model.h"
#include "services/forecaster/rpc/training_records.h"

namespace kernelcast::forecaster {

// Of experiments with models that have not seen what they forecast.
struct HeldOutOptions {
  std::string problems = KERNELCAST_SOURCE_DIR "/examples/problems";
  std::string target = std::string(kCudaTargetName);
  std::string records;  // empty: those of the tree, of the target
  std::string hold_out = "family";
  std::string output;
  int seeds = 5;

  bool by_family() const { return hold_out == "family"; }
  // What a model for the problem must not have seen: itself, or its family.
  const std::string& Without(const MeasuredProblem& problem) const {
    return by_family() ? problem.family : problem.name;
  }
  bool Apart(const MeasuredProblem& a, const MeasuredProblem& b) const {
    return Without(a) != Without(b);
  }
};

void AddHeldOutOptions(CLI::App& app, HeldOutOptions& options, const std::string& seeds);

// The problems that were measured. Errors as of ReadMeasuredProblems.
[[nodiscard]] absl::StatusOr<std::vector<MeasuredProblem>> ReadMeasured(
    const HeldOutOptions& options);

// Shared models by what they have not seen, each trained once.
class HeldOutModels {
 public:
  // Both outlive it.
  HeldOutModels(const HeldOutOptions& options, const std::vector<MeasuredProblem>& problems)
      : options_(options), problems_(problems) {}

  // Of all that is apart from the problem. INVALID_ARGUMENT and others as of SharedModel::Train.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const SharedModel>> For(
      const MeasuredProblem& problem);

 private:
  const HeldOutOptions& options_;
  const std::vector<MeasuredProblem>& problems_;
  std::map<std::string, std::shared_ptr<const SharedModel>> models_;
};

// Writes the figures to the options' output, if there is one, and makes its folder.
void WriteFigures(const HeldOutOptions& options, const std::string& figures);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_TESTS_BENCH_EXPERIMENTS_HELD_OUT_H_
