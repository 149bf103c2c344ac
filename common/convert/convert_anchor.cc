#include "common/convert/convert_anchor.h"

#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/convert_internal.h"

namespace kernelcast {

v1::AnchorKernel ToProto(const AnchorKernel& anchor) {
  v1::AnchorKernel proto;
  *proto.mutable_candidate() = ToProto(anchor.candidate);
  *proto.mutable_facts() = ToProto(anchor.facts);
  *proto.mutable_speedup() = ToProto(anchor.speedup);
  for (const AnchorKernel::ShapeTime& time : anchor.times) {
    v1::ShapeTime& out = *proto.add_times();
    *out.mutable_shape() = convert_internal::AxisValuesToProto(time.shape);
    out.set_median_ns(time.median_ns);
  }
  return proto;
}

absl::StatusOr<AnchorKernel> FromProto(const v1::AnchorKernel& proto) {
  AnchorKernel anchor;
  KC_ASSIGN_OR_RETURN(anchor.candidate, FromProto(proto.candidate()));
  anchor.facts = FromProto(proto.facts());
  anchor.speedup = FromProto(proto.speedup());
  for (const v1::ShapeTime& time : proto.times()) {
    AnchorKernel::ShapeTime& out = anchor.times.emplace_back();
    out.shape = convert_internal::AxisValuesFromProto(time.shape());
    out.median_ns = time.median_ns();
  }
  return anchor;
}

}  // namespace kernelcast
