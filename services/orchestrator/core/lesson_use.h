#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_LESSON_USE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_LESSON_USE_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "common/domain/lesson.h"
#include "common/domain/problem.h"

namespace kernelcast::orchestrator {

// Where a search uses lessons. Pure functions of the lessons in its specification.

// How good the points of a space are expected to be, by lessons about parameters and templates.
class PointMerits {
 public:
  // No merits.
  PointMerits() = default;
  // Uses the lessons about the space's target. Those about other device models count less.
  PointMerits(const Space& space, std::span<const Lesson> lessons, std::string_view device_model);

  // Whether the lessons distinguish no points.
  bool empty() const { return templates_.empty(); }

  // Expected log2 speedup of the point, relative to other points of the space: the gain of its
  // template, and for each parameter the gain of its value relative to the template's best value of
  // it. The gain of one of several values is its mean gain relative to the others. 0 without
  // merits.
  double Of(const SpacePoint& point) const;

 private:
  struct TemplateMerits {
    double gain = 0;
    std::vector<std::vector<double>> values;  // by dimension and value index; at most 0
  };
  std::vector<TemplateMerits> templates_;
};

// The lessons that say most about kernels bound by this resource (empty: unknown), at most `count`,
// largest expected effect first. One of each change. A lesson about kernels bound by another
// resource counts half.
std::vector<Lesson> MostUseful(std::span<const Lesson> lessons, std::string_view target,
                               std::string_view device_model, std::string_view bottleneck,
                               size_t count);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_LESSON_USE_H_
