#ifndef KERNELCAST_SERVICES_WORKER_REPLAY_REPLAY_TARGET_H_
#define KERNELCAST_SERVICES_WORKER_REPLAY_REPLAY_TARGET_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/facts.h"
#include "common/domain/measurement.h"
#include "services/worker/core/target.h"

namespace kernelcast::worker {

// Recorded results of one candidate from an earlier run.
struct ReplayRecord {
  std::string candidate_id;
  std::string problem_id;
  std::string target;
  std::optional<CompileFacts> facts;
  std::optional<CompileFacts> reference_facts;
  // monostate: the candidate was not measured.
  std::variant<std::monostate, Measurement, CompileError> result;
};

// Target that answers from records, under the name of the target that they were measured on. For
// running searches, tests and comparisons without compiling or timing. If a candidate is recorded
// several times, its last measurement counts. Thread-safe.
class ReplayTarget final : public Target {
 public:
  // Measurements run one after the other and take `pace` times the recorded device time. 0: no
  // delay.
  ReplayTarget(std::string target, const std::vector<ReplayRecord>& records, double pace = 0);

  TargetInfo Describe() const override;
  // A candidate that is not recorded is an error of the admission stage.
  absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                        const CancelToken& cancel) override;
  absl::StatusOr<Artifact> Resolve(const Candidate& candidate, const Artifact& sent) override;
  // FAILED_PRECONDITION: no measurement is recorded.
  absl::StatusOr<Measurement> Measure(const MeasureRequest& request,
                                      const CancelToken& cancel) override;

  size_t size() const { return records_.size(); }

 private:
  struct Known {
    std::optional<CompileFacts> facts;
    std::optional<CompileError> compile_error;
    std::optional<Measurement> measurement;
  };

  void WaitAsLongAs(const Measurement& measurement, const CancelToken& cancel);

  const std::string target_;
  const double pace_;
  std::unordered_map<std::string, Known> records_;                 // by candidate
  std::unordered_map<std::string, CompileFacts> reference_facts_;  // by problem
  TargetInfo info_;

  std::mutex mutex_;
  int64_t free_from_ns_ = 0;  // monotonic; protected by mutex_
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_REPLAY_REPLAY_TARGET_H_
