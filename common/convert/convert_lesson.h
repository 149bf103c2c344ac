#ifndef KERNELCAST_COMMON_CONVERT_CONVERT_LESSON_H_
#define KERNELCAST_COMMON_CONVERT_CONVERT_LESSON_H_

#include "common/domain/lesson.h"
#include "kernelcast/v1/orchestrator.pb.h"

namespace kernelcast {

// Same contract as convert.h. ValidateLesson checks the values.
v1::Lesson ToProto(const Lesson& lesson);
Lesson FromProto(const v1::Lesson& lesson);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_CONVERT_CONVERT_LESSON_H_
