#include "services/orchestrator/core/lesson_use.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kernelcast::orchestrator {
namespace {

// Aspect, from and to.
using Change = std::tuple<std::string, std::string, std::string>;
using Gains = std::map<Change, GainEstimate>;

Gains GainsOf(std::span<const Lesson> lessons, std::string_view target,
              std::string_view device_model) {
  Gains gains;
  for (const Lesson& lesson : lessons) {
    if (lesson.target != target) continue;
    GainEstimate estimate = EstimateOf(lesson, device_model);
    Change change(lesson.aspect, lesson.from, lesson.to);
    // Both directions are one change.
    if (lesson.to < lesson.from) {
      std::swap(std::get<1>(change), std::get<2>(change));
      estimate.mean = -estimate.mean;
    }
    const auto [known, inserted] = gains.try_emplace(std::move(change), estimate);
    if (!inserted) known->second = Combine(known->second, estimate);
  }
  return gains;
}

double GainOf(const Gains& gains, const std::string& aspect, const std::string& from,
              const std::string& to) {
  const bool reversed = to < from;
  const auto found = gains.find(reversed ? Change(aspect, to, from) : Change(aspect, from, to));
  if (found == gains.end()) return 0;
  return reversed ? -found->second.Expected() : found->second.Expected();
}

// Of each value, the mean gain relative to the others.
std::vector<double> MeanGains(const Gains& gains, const std::string& aspect,
                              const std::vector<std::string>& values) {
  std::vector<double> means(values.size(), 0);
  for (size_t to = 0; to < values.size(); ++to) {
    for (const std::string& from : values) {
      means[to] += GainOf(gains, aspect, from, values[to]) / static_cast<double>(values.size());
    }
  }
  return means;
}

// Values of a dimension as lessons name them.
std::vector<std::string> NamesOf(const SpaceTemplate& entry,
                                 const SpaceTemplate::Dimension& dimension) {
  if (dimension.name != kFlagsParameter) return dimension.values;
  std::vector<std::string> names;
  for (const auto& flags : entry.flag_sets) names.push_back(FlagsName(flags));
  return names;
}

}  // namespace

PointMerits::PointMerits(const Space& space, std::span<const Lesson> lessons,
                         std::string_view device_model) {
  const Gains gains = GainsOf(lessons, space.target, device_model);
  std::vector<std::string> names;
  for (const SpaceTemplate& entry : space.templates) names.push_back(entry.name);
  const std::vector<double> of_templates = MeanGains(gains, std::string(kTemplateAspect), names);
  bool any = false;
  std::vector<TemplateMerits> templates;
  for (size_t i = 0; i < space.templates.size(); ++i) {
    const SpaceTemplate& entry = space.templates[i];
    TemplateMerits& merits = templates.emplace_back();
    merits.gain = of_templates[i];
    any = any || merits.gain != 0;
    for (const SpaceTemplate::Dimension& dimension : entry.dimensions) {
      std::vector<double> values =
          MeanGains(gains, absl::StrCat(std::string(kParameterAspect), dimension.name),
                    NamesOf(entry, dimension));
      const double best = values.empty() ? 0 : *std::ranges::max_element(values);
      for (double& value : values) {
        value -= best;
        any = any || value != 0;
      }
      merits.values.push_back(std::move(values));
    }
  }
  if (any) templates_ = std::move(templates);
}

double PointMerits::Of(const SpacePoint& point) const {
  if (templates_.empty()) return 0;
  const TemplateMerits& merits = templates_[static_cast<size_t>(point.template_index)];
  double sum = merits.gain;
  for (size_t d = 0; d < merits.values.size(); ++d) {
    sum += merits.values[d][static_cast<size_t>(point.values[d])];
  }
  return sum;
}

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
