#ifndef KERNELCAST_COMMON_CONVERT_CONVERT_ANCHOR_H_
#define KERNELCAST_COMMON_CONVERT_CONVERT_ANCHOR_H_

#include "absl/status/statusor.h"
#include "common/domain/anchor.h"
#include "kernelcast/v1/forecaster.pb.h"

namespace kernelcast {

// Same contract as convert.h.
v1::AnchorKernel ToProto(const AnchorKernel& anchor);
[[nodiscard]] absl::StatusOr<AnchorKernel> FromProto(const v1::AnchorKernel& anchor);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONVERT_CONVERT_ANCHOR_H_
