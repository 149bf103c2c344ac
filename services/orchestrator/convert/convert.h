#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CONVERT_CONVERT_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CONVERT_CONVERT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/repeated_field.h"
#include "google/protobuf/timestamp.pb.h"
#include "kernelcast/v1/event.pb.h"
#include "kernelcast/v1/orchestrator.pb.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/event.h"
#include "services/orchestrator/core/state.h"

namespace kernelcast::orchestrator {

// Converts between the orchestrator's types and the messages of orchestrator.proto and event.proto.
// FromProto returns INVALID_ARGUMENT with the field's path.

v1::SearchSpec ToProto(const SearchSpec& spec);
[[nodiscard]] absl::StatusOr<SearchSpec> FromProto(const v1::SearchSpec& spec);
v1::SearchCounts ToProto(const SearchCounts& counts);
v1::SearchStatus ToProto(SearchStatus status);
v1::Generation ToProto(const GenerationSettled& settled);
v1::Advice ToProto(const GenerationAdvised& advised);
v1::Search ToProto(const SearchSnapshot& snapshot);
// `with_feedback`: fills in text_feedback.
v1::Evaluation ToProto(const EvaluationRecord& record, bool with_feedback);
v1::EvaluateMode ToProto(EvaluateMode mode);
[[nodiscard]] absl::StatusOr<EvaluateMode> FromProto(v1::EvaluateMode mode);
v1::Event ToProto(const Event& event);
// DATA_LOSS: not a valid event of this version.
[[nodiscard]] absl::StatusOr<Event> FromProto(const v1::Event& event);
// Validates the device models of a request. INVALID_ARGUMENT names the field: too many, empty, too
// long, or duplicate.
inline constexpr size_t kMaxDeviceModels = 16;
inline constexpr size_t kMaxDeviceModelBytes = 128;
[[nodiscard]] absl::StatusOr<std::vector<std::string>> DeviceModelsFromProto(
    std::string_view field, const google::protobuf::RepeatedPtrField<std::string>& models);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CONVERT_CONVERT_H_
