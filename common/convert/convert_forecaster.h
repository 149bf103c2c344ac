#ifndef KERNELCAST_COMMON_CONVERT_CONVERT_FORECASTER_H_
#define KERNELCAST_COMMON_CONVERT_CONVERT_FORECASTER_H_

#include "absl/status/statusor.h"
#include "common/domain/anchor.h"
#include "common/domain/label.h"
#include "kernelcast/v1/forecaster.pb.h"

namespace kernelcast {

// Conversion of what the messages of forecaster.proto share with other services. Same contract as
// convert.h.
v1::AnchorKernel ToProto(const AnchorKernel& anchor);
v1::FailureLabel ToProto(FailureKind failure);

[[nodiscard]] absl::StatusOr<AnchorKernel> FromProto(const v1::AnchorKernel& anchor);
[[nodiscard]] absl::StatusOr<FailureKind> FromProto(v1::FailureLabel failure);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONVERT_CONVERT_FORECASTER_H_
