// Finalists of searches, and the gate.

#include "absl/strings/str_cat.h"
#include "common/convert/convert.h"
#include "services/orchestrator/convert/convert.h"

namespace kernelcast::orchestrator {

using ::kernelcast::ToProto;

v1::GateMode ToProto(GateMode mode) {
  switch (mode) {
    case GateMode::kDeclared: return v1::GATE_MODE_DECLARED;
    case GateMode::kDrawn: return v1::GATE_MODE_DRAWN;
    case GateMode::kOff: return v1::GATE_MODE_OFF;
  }
  return v1::GATE_MODE_UNSPECIFIED;
}

absl::StatusOr<GateMode> FromProto(v1::GateMode mode) {
  switch (mode) {
    case v1::GATE_MODE_UNSPECIFIED:
    case v1::GATE_MODE_DECLARED: return GateMode::kDeclared;
    case v1::GATE_MODE_DRAWN: return GateMode::kDrawn;
    case v1::GATE_MODE_OFF: return GateMode::kOff;
    default:
      return absl::InvalidArgumentError(absl::StrCat("spec.gate: is ", static_cast<int>(mode),
                                                     "; off, declared or drawn is allowed"));
  }
}

v1::Finalist ToProto(const Finalist& finalist) {
  v1::Finalist message;
  message.set_candidate_id(finalist.candidate_id);
  if (finalist.measurements > 0) *message.mutable_speedup() = ToProto(finalist.speedup);
  message.set_measurements(finalist.measurements);
  *message.mutable_screening() = ToProto(finalist.screening);
  message.set_tied(finalist.tied);
  message.set_failed(finalist.failed);
  switch (finalist.gate) {
    case Gate::kNotMeasured: return message;
    case Gate::kCarriesOver: message.set_gate(v1::Finalist::GATE_CARRIES_OVER); break;
    case Gate::kDoesNotCarryOver: message.set_gate(v1::Finalist::GATE_DOES_NOT_CARRY_OVER); break;
    case Gate::kFailed: message.set_gate(v1::Finalist::GATE_FAILED); break;
  }
  if (finalist.gate != Gate::kFailed) {
    *message.mutable_held_out_speedup() = ToProto(finalist.held_out->speedup);
  }
  message.set_held_out_outcome(finalist.held_out->outcome);
  message.set_held_out_request_id(finalist.held_out->request_id);
  return message;
}

}  // namespace kernelcast::orchestrator
