#include "services/worker/rpc/target_messages.h"

#include <set>
#include <variant>

#include "common/convert/convert.h"

namespace kernelcast::worker {
namespace {

v1::DevicePeak::Source SourceToProto(PeakSource source) {
  switch (source) {
    case PeakSource::kAttributes: return v1::DevicePeak::SOURCE_ATTRIBUTES;
    case PeakSource::kTable: return v1::DevicePeak::SOURCE_TABLE;
    case PeakSource::kMeasured: return v1::DevicePeak::SOURCE_MEASURED;
  }
  return v1::DevicePeak::SOURCE_UNSPECIFIED;
}

void SetPeak(const DevicePeak& peak, v1::DevicePeak& proto) {
  proto.set_name(peak.name);
  proto.set_per_second(peak.per_second);
  proto.set_source(SourceToProto(peak.source));
  proto.set_detail(peak.detail);
}

}  // namespace

v1::TargetDescription DescribeTarget(const TargetInfo& info) {
  v1::TargetDescription description;
  description.set_target(info.target);
  description.set_can_compile(info.can_compile);
  description.set_can_measure(info.can_measure);
  *description.mutable_device() = ToProto(info.device);
  description.set_architecture(info.architecture);
  description.set_toolchain(info.toolchain);
  for (const std::string& flag : info.allowed_flags) {
    description.add_allowed_flags(flag);
  }
  description.set_hardware_counters(info.hardware_counters);
  description.set_unavailable_reason(info.unavailable_reason);
  uint32_t index = 0;
  for (const TargetDevice& device : DevicesOf(info)) {
    if (info.devices.empty() && !info.can_measure) continue;
    v1::TargetDevice* const listed = description.add_devices();
    listed->set_index(index++);
    *listed->mutable_device() = ToProto(device.info);
    listed->set_architecture(device.architecture);
    listed->set_can_measure(device.can_measure);
    if (!device.can_measure) listed->set_unavailable_reason(device.unavailable_reason);
    for (const DevicePeak& peak : device.peaks) SetPeak(peak, *listed->add_peaks());
  }
  for (const DevicePeak& peak : info.peaks) SetPeak(peak, *description.add_peaks());
  for (const CandidateKind kind : info.candidate_kinds) {
    description.add_candidate_kinds(ToProto(kind));
  }
  for (const std::string& tool : info.missing_tools) description.add_missing_tools(tool);
  return description;
}

void DescribeTargets(const std::map<std::string, Target*>& targets, v1::WorkerDescription& worker) {
  std::set<std::string> missing;
  for (const auto& [name, target] : targets) {
    const TargetInfo info = target->Describe();
    *worker.add_targets() = DescribeTarget(info);
    missing.insert(info.missing_protections.begin(), info.missing_protections.end());
  }
  worker.mutable_missing_protections()->Assign(missing.begin(), missing.end());
}

v1::CompileReply CompileReplyOf(const std::string& request_id, const CompileResult& compiled,
                                bool want_artifact) {
  v1::CompileReply reply;
  reply.set_request_id(request_id);
  reply.set_cached(compiled.cached);
  *reply.mutable_compile_time() = DurationToProto(compiled.compile_ns);
  if (const auto* error = std::get_if<CompileError>(&compiled.result)) {
    *reply.mutable_compile_error() = ToProto(*error);
    return reply;
  }
  const auto& success = std::get<CompileSuccess>(compiled.result);
  *reply.mutable_success()->mutable_facts() = ToProto(success.facts);
  *reply.mutable_success()->mutable_artifact() = ToProto(success.artifact);
  if (!want_artifact) {
    reply.mutable_success()->mutable_artifact()->clear_content();
  }
  reply.mutable_success()->set_log(success.log);
  return reply;
}

}  // namespace kernelcast::worker
