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

// Measurements of one problem on one target.
struct MeasuredProblem {
  std::string name;
  std::string target;
  std::string device_model;
  std::string family;
  std::shared_ptr<const ProblemContext> context;
  std::vector<TrainingRow> rows;           // all candidates that compiled, in the order of the file
  std::vector<std::string> candidate_ids;  // one per row
};

// Reads PROBLEM.jsonl or PROBLEM.jsonl.gz with one ExportRecord per line. The problem is the folder
// PROBLEM in `problems`. All records must have the same target and device model. INVALID_ARGUMENT:
// "FILE:LINE: what is wrong".
[[nodiscard]] absl::StatusOr<MeasuredProblem> ReadMeasuredProblem(const std::string& path,
                                                                  const std::string& problems);

// Reads all such files in the folder, ordered by name.
[[nodiscard]] absl::StatusOr<std::vector<MeasuredProblem>> ReadMeasuredProblems(
    const std::string& folder, const std::string& problems);

// The file of a prior trained on these. The same rows and seed give the same bytes.
[[nodiscard]] absl::StatusOr<std::string> TrainPrior(const std::vector<MeasuredProblem>& measured,
                                                     uint64_t seed);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_RPC_TRAINING_RECORDS_H_
