#include "services/worker/core/target.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace kernelcast::worker {

Measurement RecordOf(const Measurer& measurer, const MeasureRequest& request, int64_t start_ns,
                     MeasureOutcome outcome) {
  Measurement measurement;
  measurement.candidate_id = request.candidate.candidate_id;
  measurement.problem_id = request.candidate.problem_id;
  measurement.target = measurer.target.target;
  measurement.level = request.spec.level;
  measurement.worker_id = measurer.worker_id;
  measurement.device = measurer.target.device;
  measurement.measured_at_ns = Clock::Real().WallNs();
  measurement.device_time_ns = Clock::Real().MonotonicNs() - start_ns;
  measurement.toolchain = request.artifact.toolchain;
  measurement.architecture = request.artifact.architecture;
  measurement.protocol_version = std::string(measurer.protocol_version);
  measurement.outcome = std::move(outcome);
  return measurement;
}

absl::Status CheckModel(const TargetInfo& target, const std::string& device_model) {
  const bool only_compiles = !target.can_measure && target.devices.empty();
  const bool known =
      device_model.empty() || only_compiles || target.device.model == device_model ||
      std::any_of(target.devices.begin(), target.devices.end(),
                  [&](const TargetDevice& device) { return device.info.model == device_model; });
  return known ? absl::OkStatus()
               : absl::FailedPreconditionError(absl::StrCat(
                     "target ", target.target, " has no device of model '", device_model, "'"));
}

std::vector<TargetDevice> DevicesOf(const TargetInfo& info) {
  if (!info.devices.empty()) return info.devices;
  return {{info.device, info.architecture, info.can_measure, info.unavailable_reason, info.peaks}};
}

std::optional<size_t> Target::Expect(const Problem&, const Candidate&, MeasureLevel,
                                     const DeviceWish&) {
  return std::nullopt;
}

void Target::Announce(const Problem&, const CancelToken&) {}

bool Target::Revive(size_t) { return true; }

absl::StatusOr<Profile> Target::ProfileCandidate(const MeasureRequest&, const CancelToken&) {
  return absl::UnimplementedError(
      absl::StrCat("the ", Describe().target, " target has no profiler"));
}

void AddProfile(absl::StatusOr<Profile> profile, Measurement& measurement) {
  auto* const ok = std::get_if<MeasuredOk>(&measurement.outcome);
  if (ok == nullptr) {
    return;
  }
  std::string& reason = ok->environment.counters_unavailable_reason;
  if (!profile.ok()) {
    reason = std::string(profile.status().message());
    return;
  }
  reason = std::move(profile->unavailable_reason);
  measurement.device_time_ns += profile->device_time_ns;
  for (size_t i = 0; i < std::min(ok->shapes.size(), profile->shapes.size()); ++i) {
    ok->shapes[i].profile = std::move(profile->shapes[i]);
  }
}

absl::Status CheckSent(const TargetInfo& target, const std::string& artifact_id,
                       const Artifact& sent) {
  if (sent.architecture != target.architecture || sent.toolchain != target.toolchain) {
    return absl::FailedPreconditionError(
        absl::StrCat("the artefact is for ", sent.architecture, " by ", sent.toolchain,
                     "; this worker has ", target.architecture, " and ", target.toolchain));
  }
  if (sent.artifact_id != artifact_id) {
    return absl::InvalidArgumentError("artifact: was not made from this candidate");
  }
  return absl::OkStatus();
}

CompileResult RefusedCompile(CompileStage stage, std::string log) {
  CompileResult result;
  result.result = CompileError{stage, std::move(log)};
  return result;
}

}  // namespace kernelcast::worker
