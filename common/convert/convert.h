#ifndef KERNELCAST_COMMON_CONVERT_CONVERT_H_
#define KERNELCAST_COMMON_CONVERT_CONVERT_H_

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/decision.h"
#include "common/domain/facts.h"
#include "common/domain/forecast.h"
#include "common/domain/measurement.h"
#include "common/domain/model_answer.h"
#include "common/domain/problem.h"
#include "kernelcast/v1/kernel.pb.h"

namespace kernelcast {

// Converts between the domain types and the messages of kernel.proto. ToProto never fails.
// FromProto returns INVALID_ARGUMENT with the field's path for values without a domain equivalent
// (an unset oneof, an unspecified enum where one is needed). Neither validates further. In `string`
// fields ToProto replaces invalid UTF-8 with U+FFFD, because it would fail the whole call. `bytes`
// fields are copied unchanged.

v1::CandidateKind ToProto(CandidateKind kind);
v1::Candidate ToProto(const Candidate& candidate);
v1::CompileFacts ToProto(const CompileFacts& facts);
v1::CompileError ToProto(const CompileError& error);
v1::Artifact ToProto(const Artifact& artifact);
v1::Forecast ToProto(const Forecast& forecast);
v1::Abstention ToProto(const Abstention& abstention);
v1::ModelAnswer ToProto(const ModelAnswer& answer);
v1::ModelUse ToProto(const ModelUse& use);
void ToProto(const UnreadableByFault& unreadable,
             google::protobuf::RepeatedPtrField<v1::UnreadableAnswers>& proto);
v1::TokenUsage ToProto(const TokenUsage& usage);
v1::Measurement ToProto(const Measurement& measurement);
v1::Decision ToProto(const Decision& decision);
v1::Ratio ToProto(const Ratio& ratio);
v1::DeviceInfo ToProto(const DeviceInfo& device);
v1::ProblemDefinition ToProto(const Problem& problem);
v1::Problem ProblemFilesToProto(const Problem& problem);
v1::DecisionReason ToProto(DecisionReason reason);
v1::MeasureLevel ToProto(MeasureLevel level);

[[nodiscard]] absl::StatusOr<Candidate> FromProto(const v1::Candidate& candidate);
CompileFacts FromProto(const v1::CompileFacts& facts);
[[nodiscard]] absl::StatusOr<CompileError> FromProto(const v1::CompileError& error);
[[nodiscard]] absl::StatusOr<Artifact> FromProto(const v1::Artifact& artifact);
Forecast FromProto(const v1::Forecast& forecast);
[[nodiscard]] absl::StatusOr<Abstention> FromProto(const v1::Abstention& abstention);
ModelAnswer FromProto(const v1::ModelAnswer& answer);
ModelUse FromProto(const v1::ModelUse& use);
UnreadableByFault FromProto(const google::protobuf::RepeatedPtrField<v1::UnreadableAnswers>& proto);
TokenUsage FromProto(const v1::TokenUsage& usage);
[[nodiscard]] absl::StatusOr<Measurement> FromProto(const v1::Measurement& measurement);
[[nodiscard]] absl::StatusOr<Decision> FromProto(const v1::Decision& decision);
Ratio FromProto(const v1::Ratio& ratio);
DeviceInfo FromProto(const v1::DeviceInfo& device);
[[nodiscard]] absl::StatusOr<DecisionReason> FromProto(v1::DecisionReason reason);
// Unspecified means screening.
MeasureLevel FromProto(v1::MeasureLevel level);

// The files of a problem and their id, not parsed. INVALID_ARGUMENT: problem_id is set and is
// another.
struct ProblemContent {
  std::string problem_id;
  std::vector<ProblemFile> files;
};
[[nodiscard]] absl::StatusOr<ProblemContent> ContentFromProto(const v1::Problem& problem);
// Parses them.
[[nodiscard]] absl::StatusOr<Problem> ProblemFromProto(const v1::Problem& problem);

// Nanoseconds to and from the well-known types. Values outside 64 bits are clamped. Timestamps
// count from the Unix epoch.
google::protobuf::Duration DurationToProto(int64_t ns);
google::protobuf::Timestamp TimestampToProto(int64_t ns);
int64_t ToNanoseconds(const google::protobuf::Duration& duration);
int64_t ToNanoseconds(const google::protobuf::Timestamp& timestamp);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONVERT_CONVERT_H_
