#include "common/convert/convert_lesson.h"

#include "common/convert/fields.h"

namespace kernelcast {

KC_FIELDS(Lesson, v1::Lesson) {
  KC_SAME(family, target, device_model, bottleneck, aspect, from, to, trials, held, mean_log2_gain,
          stddev_log2_gain, searches, text);
}

v1::Lesson ToProto(const Lesson& lesson) { return WriteFields<v1::Lesson>(lesson); }
Lesson FromProto(const v1::Lesson& message) { return *ReadFields<Lesson>(message); }

}  // namespace kernelcast
