#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_LESSON_USE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_LESSON_USE_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "common/domain/lesson.h"

namespace kernelcast::orchestrator {

// The lessons that say most about kernels bound by this resource (empty: unknown), at most `count`,
// largest expected effect first. One of each change. A lesson about kernels bound by another
// resource counts half.
std::vector<Lesson> MostUseful(std::span<const Lesson> lessons, std::string_view target,
                               std::string_view device_model, std::string_view bottleneck,
                               size_t count);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_LESSON_USE_H_
