#include "common/convert/convert_anchor.h"

#include "common/convert/fields.h"

namespace kernelcast {

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

}  // namespace kernelcast
