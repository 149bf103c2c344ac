#include "services/orchestrator/clients/worker_replies.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/domain/measurement_check.h"

namespace kernelcast::orchestrator {
namespace {

constexpr uint32_t kMaxCredits = 100'000;
constexpr int kMaxTargets = 64;
constexpr int kMaxDevices = 1'024;

absl::Status Impossible(const absl::Status& status) {
  return absl::InternalError(
      absl::StrCat("the worker's reply is impossible: ", std::string(status.message())));
}

// Whether the reply is for another request, such as one that a proxy or a worker has mixed up.
absl::Status CheckRequestId(const std::string& asked, const std::string& answered) {
  if (asked == answered) return absl::OkStatus();
  return Impossible(absl::InvalidArgumentError(
      absl::StrCat("request_id: it is for another request than ", asked)));
}

}  // namespace

absl::StatusOr<CompileResult> ReadCompileReply(const std::string& request_id,
                                               const v1::CompileReply& reply) {
  KC_RETURN_IF_ERROR(CheckRequestId(request_id, reply.request_id()));
  if (reply.has_compile_error()) {
    auto error = FromProto(reply.compile_error());
    if (!error.ok()) return Impossible(error.status());
    return CompileResult(*std::move(error));
  }
  auto artifact = FromProto(reply.success().artifact());
  if (!artifact.ok()) return Impossible(artifact.status());
  CompileFacts facts = FromProto(reply.success().facts());
  if (const absl::Status finite = CheckFactsAreFinite(facts); !finite.ok()) {
    return Impossible(finite);
  }
  return CompileResult(CompiledCandidate{std::move(facts), *std::move(artifact)});
}

absl::StatusOr<MeasureResult> ReadMeasureReply(const v1::MeasureRequest& asked,
                                               const v1::MeasureReply& reply) {
  KC_RETURN_IF_ERROR(CheckRequestId(asked.request_id(), reply.request_id()));
  if (reply.has_compile_error()) {
    auto error = FromProto(reply.compile_error());
    if (!error.ok()) return Impossible(error.status());
    return MeasureResult(*std::move(error));
  }
  auto measurement = FromProto(reply.measurement());
  if (!measurement.ok()) return Impossible(measurement.status());
  const MeasurementOrder order = {.candidate_id = asked.candidate().candidate_id(),
                                  .problem_id = asked.candidate().problem_id(),
                                  .target = asked.candidate().target(),
                                  .device_model = asked.device_model(),
                                  .level = FromProto(asked.level())};
  if (const absl::Status possible = CheckAgainst(order, *measurement); !possible.ok()) {
    return Impossible(possible);
  }
  return MeasureResult(*std::move(measurement));
}

std::string ImpossibleInDescription(const v1::WorkerDescription& description) {
  if (description.compile_credits() > kMaxCredits || description.measure_credits() > kMaxCredits) {
    return absl::StrCat("describes more than ", kMaxCredits, " credits");
  }
  if (description.targets_size() > kMaxTargets) {
    return absl::StrCat("describes more than ", kMaxTargets, " targets");
  }
  for (const v1::TargetDescription& target : description.targets()) {
    if (target.devices_size() > kMaxDevices) {
      return absl::StrCat("describes more than ", kMaxDevices, " devices of a target");
    }
  }
  return "";
}

}  // namespace kernelcast::orchestrator
