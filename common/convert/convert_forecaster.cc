#include "common/convert/convert_forecaster.h"

#include "common/convert/fields.h"

namespace kernelcast {

constexpr auto Pairs(FailureKind) {
  return std::to_array<std::pair<FailureKind, v1::FailureLabel>>({
      {FailureKind::kCompileError, v1::FAILURE_LABEL_COMPILE_ERROR},
      {FailureKind::kWrongResult, v1::FAILURE_LABEL_WRONG_RESULT},
      {FailureKind::kCrash, v1::FAILURE_LABEL_CRASH},
      {FailureKind::kTimeout, v1::FAILURE_LABEL_TIMEOUT},
      {FailureKind::kExploit, v1::FAILURE_LABEL_EXPLOIT},
  });
}

KC_FIELDS(AnchorKernel::ShapeTime, v1::ShapeTime) { KC_SAME(shape, median_ns); }

KC_FIELDS(AnchorKernel, v1::AnchorKernel) {
  KC_NESTED(candidate);
  KC_NESTED(facts);
  KC_NESTED(speedup);
  KC_SAME(times);
}

v1::AnchorKernel ToProto(const AnchorKernel& anchor) {
  return WriteFields<v1::AnchorKernel>(anchor);
}
absl::StatusOr<AnchorKernel> FromProto(const v1::AnchorKernel& proto) {
  return ReadFields<AnchorKernel>(proto);
}

v1::FailureLabel ToProto(FailureKind failure) { return convert_internal::EnumToProto(failure); }
absl::StatusOr<FailureKind> FromProto(v1::FailureLabel failure) {
  return convert_internal::EnumFromProto<FailureKind>(failure, "failure");
}

}  // namespace kernelcast
