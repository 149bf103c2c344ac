#include "services/worker/replay/replay_target.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

constexpr const char* kArchitecture = "replay";

CompileResult Recorded(const std::string& id, const CompileFacts& facts) {
  CompileSuccess success;
  success.facts = facts;
  success.artifact.artifact_id = id;
  success.artifact.architecture = kArchitecture;
  success.artifact.toolchain = kArchitecture;
  CompileResult result;
  result.result = std::move(success);
  result.cached = true;
  return result;
}

CompileResult Refused(CompileError error) {
  CompileResult result;
  result.result = std::move(error);
  result.cached = true;
  return result;
}

CompileResult NotRecorded(std::string_view what) {
  return Refused({CompileStage::kAdmission, absl::StrCat("not recorded: ", std::string(what))});
}

}  // namespace

ReplayTarget::ReplayTarget(std::string target, const std::vector<ReplayRecord>& records,
                           double pace)
    : target_(std::move(target)), pace_(pace) {
  for (const ReplayRecord& record : records) {
    if (record.target != target_) {
      continue;
    }
    Known& known = records_[record.candidate_id];
    if (record.facts) known.facts = record.facts;
    if (record.reference_facts) {
      reference_facts_[record.problem_id] = *record.reference_facts;
    }
    if (const auto* measurement = std::get_if<Measurement>(&record.result)) {
      known.measurement = *measurement;
      info_.device = measurement->device;
    } else if (const auto* error = std::get_if<CompileError>(&record.result)) {
      known.compile_error = *error;
    }
  }
  info_.target = target_;
  info_.can_compile = true;
  info_.can_measure = true;
  info_.architecture = kArchitecture;
  info_.toolchain = kArchitecture;
}

TargetInfo ReplayTarget::Describe() const { return info_; }

absl::StatusOr<CompileResult> ReplayTarget::Compile(const CompileRequest& request,
                                                    const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(cancel.Check());
  KC_RETURN_IF_ERROR(CheckModel(info_, request.device_model));
  if (request.candidate == nullptr) {
    const auto found = reference_facts_.find(request.problem.problem_id);
    return found == reference_facts_.end()
               ? NotRecorded(absl::StrCat("the reference of ", request.problem.name))
               : Recorded(absl::StrCat("reference of ", request.problem.problem_id), found->second);
  }
  const std::string& id = request.candidate->candidate_id;
  const auto found = records_.find(id);
  if (found == records_.end()) {
    return NotRecorded(absl::StrCat("candidate ", id));
  }
  if (found->second.compile_error) {
    return Refused(*found->second.compile_error);
  }
  return found->second.facts ? Recorded(id, *found->second.facts)
                             : NotRecorded(absl::StrCat("facts of ", id));
}

absl::StatusOr<Artifact> ReplayTarget::Resolve(const Candidate& candidate, const Artifact&) {
  Artifact artifact;
  artifact.artifact_id = candidate.candidate_id;
  artifact.architecture = kArchitecture;
  artifact.toolchain = kArchitecture;
  return artifact;
}

absl::StatusOr<Measurement> ReplayTarget::Measure(const MeasureRequest& request,
                                                  const CancelToken& cancel) {
  KC_RETURN_IF_ERROR(cancel.Check());
  const std::string& id = request.candidate.candidate_id;
  const auto found = records_.find(id);
  if (found == records_.end() || !found->second.measurement) {
    return absl::FailedPreconditionError(absl::StrCat("no measurement of ", id, " is recorded"));
  }
  Measurement measurement = *found->second.measurement;
  measurement.level = request.spec.level;
  const auto* const ok = std::get_if<MeasuredOk>(&measurement.outcome);
  if (ok != nullptr && request.spec.level == MeasureLevel::kCheck) {
    measurement.outcome = Passed{ok->correctness_cases, ok->rule, ok->notes};
  }
  if (pace_ > 0) {
    WaitAsLongAs(measurement, cancel);
    KC_RETURN_IF_ERROR(cancel.Check());
  }
  return measurement;
}

void ReplayTarget::WaitAsLongAs(const Measurement& measurement, const CancelToken& cancel) {
  const int64_t now_ns = Clock::Real().MonotonicNs();
  int64_t end_ns = 0;
  {
    const std::lock_guard lock(mutex_);
    end_ns = std::max(now_ns, free_from_ns_) +
             static_cast<int64_t>(pace_ * static_cast<double>(measurement.device_time_ns));
    free_from_ns_ = end_ns;
  }
  cancel.SleepFor(end_ns - now_ns);
}

}  // namespace kernelcast::worker
