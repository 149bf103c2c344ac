#include "services/orchestrator/core/lesson_use.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kernelcast::orchestrator {

std::vector<Lesson> MostUseful(std::span<const Lesson> lessons, std::string_view target,
                               std::string_view device_model, std::string_view bottleneck,
                               size_t count) {
  std::vector<std::pair<double, const Lesson*>> ranked;
  for (const Lesson& lesson : lessons) {
    if (lesson.target != target) continue;
    double effect = std::abs(EstimateOf(lesson, device_model).Expected());
    if (!lesson.bottleneck.empty() && !bottleneck.empty() && lesson.bottleneck != bottleneck) {
      effect /= 2;
    }
    if (effect > 0) ranked.emplace_back(effect, &lesson);
  }
  std::ranges::stable_sort(ranked, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Lesson> useful;
  for (const auto& [effect, lesson] : ranked) {
    if (useful.size() >= count) break;
    const bool known = std::ranges::any_of(useful, [&lesson = lesson](const Lesson& other) {
      return other.aspect == lesson->aspect &&
             ((other.from == lesson->from && other.to == lesson->to) ||
              (other.from == lesson->to && other.to == lesson->from));
    });
    if (!known) useful.push_back(*lesson);
  }
  return useful;
}

}  // namespace kernelcast::orchestrator
