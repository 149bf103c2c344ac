#ifndef KERNELCAST_SERVICES_FORECASTER_RPC_TRAINING_RECORDS_H_
#define KERNELCAST_SERVICES_FORECASTER_RPC_TRAINING_RECORDS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/forecaster/core/problem_context.h"
#include "services/forecaster/embedded/prior.h"
#include "services/forecaster/embedded/training_row.h"

namespace kernelcast::forecaster {

// What was measured of one problem on one target.
struct MeasuredProblem {
  std::string name;
  std::string target;
  std::string family;
  std::shared_ptr<const ProblemContext> context;
  std::vector<TrainingRow> rows;  // of all that compiled, in the order of the file
};

// Reads PROBLEM.jsonl or PROBLEM.jsonl.gz: an ExportRecord on each line. The problem is the folder
// PROBLEM of `problems`. All records must be of one target. INVALID_ARGUMENT: "FILE:LINE: what is
// wrong".
[[nodiscard]] absl::StatusOr<MeasuredProblem> ReadMeasuredProblem(const std::string& path,
                                                                  const std::string& problems);

// Of every such file in the folder, in the order of names.
[[nodiscard]] absl::StatusOr<std::vector<MeasuredProblem>> ReadMeasuredProblems(
    const std::string& folder, const std::string& problems);

// The file of a prior trained on these: the same rows and seed give the same bytes.
[[nodiscard]] absl::StatusOr<std::string> TrainPrior(const std::vector<MeasuredProblem>& measured,
                                                     uint64_t seed);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_RPC_TRAINING_RECORDS_H_
