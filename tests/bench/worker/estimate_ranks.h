#ifndef KERNELCAST_TESTS_BENCH_WORKER_ESTIMATE_RANKS_H_
#define KERNELCAST_TESTS_BENCH_WORKER_ESTIMATE_RANKS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::testing {

// A candidate of an example, measured on a GPU. Times are medians by timed shape, in the shapes'
// order.
struct MeasuredExample {
  std::string kind;  // "device_triton" or "python"
  std::string task;
  std::string name;
  std::string outcome;  // as OutcomeName; the times are empty unless it is "ok"
  std::string device;   // "NVIDIA H200"
  std::vector<double> candidate_ns;
  std::vector<double> reference_ns;
  std::vector<double> eager_ns;  // of the candidate; empty: not a Python candidate
};

// One line of JSON, without the line's end.
std::string ToJsonLine(const MeasuredExample& measured);
// INVALID_ARGUMENT: names the line that has not the form.
[[nodiscard]] absl::StatusOr<std::vector<MeasuredExample>> ParseMeasuredExamples(
    std::string_view lines);

// Times by shape, from a compile without a GPU; at least one.
struct EstimatedTimes {
  std::vector<double> candidate_ns;
  std::vector<double> reference_ns;  // empty: not estimated
};

struct ComparedExample {
  MeasuredExample measured;
  EstimatedTimes estimated;  // empty: not estimated
};

// Ranks of the candidates that are both measured and estimated.
struct TaskRanks {
  std::string task;
  std::vector<double> measured_log2_ns;  // mean over the shapes that were estimated
  std::vector<double> estimated_log2_ns;
  // Estimated log2 speedups and their errors. Empty if the reference was not estimated.
  std::vector<double> log2_speedups;
  std::vector<double> log2_errors;

  // Between the times. NaN for fewer than three candidates.
  double Spearman() const;
};

// By task, in order of their names.
std::vector<TaskRanks> RankTasks(std::span<const ComparedExample> compared);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_BENCH_WORKER_ESTIMATE_RANKS_H_
