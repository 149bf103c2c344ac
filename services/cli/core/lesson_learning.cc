#include "services/cli/core/lesson_learning.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/domain/niche.h"
#include "common/domain/text.h"

namespace kernelcast::cli {
namespace {

constexpr std::string_view kTemplateTunable = "TEMPLATE";
constexpr std::string_view kFlagsTunable = "FLAGS";
constexpr double kNormal95 = 1.96;
// Deviation of the effect of a change between kernels, in log2. Measurements that are more precise
// than this have about the same weight.
constexpr double kContextDeviation = 0.1;

double Squared(double value) { return value * value; }

// A kernel with what is compared.
struct Measured {
  const Candidate* candidate = nullptr;
  const CompileFacts* facts = nullptr;
  double log2_speedup = 0;
  double variance = 0;
  std::string_view bottleneck;
};

Measured MeasuredOf(const Candidate& candidate, const CompileFacts& facts, const Ratio& speedup) {
  Measured measured{&candidate, &facts, std::log2(speedup.value), 0, BoundName(facts)};
  if (speedup.low > 0 && speedup.high >= speedup.low) {
    measured.variance = Squared(std::log2(speedup.high / speedup.low) / 2 / kNormal95);
  }
  return measured;
}

bool IsBefore(const std::string& a, const std::string& b) {
  if (IsDecimalInteger(a) && IsDecimalInteger(b)) {
    return std::strtoll(a.c_str(), nullptr, 10) < std::strtoll(b.c_str(), nullptr, 10);
  }
  return a < b;
}

// The pairs of one change.
struct Pairs {
  uint32_t trials = 0;
  uint32_t gains = 0;
  double weight = 0;
  double sum = 0;
  double squares = 0;
};

class Learner {
 public:
  explicit Learner(const SearchOutcome& search) : search_(search) {}

  // `a` and `b` differ in the aspect alone.
  void Add(const std::string& aspect, const Measured& a, const std::string& value_a,
           const Measured& b, const std::string& value_b) {
    if (value_a == value_b) return;
    if (IsBefore(value_b, value_a)) {
      Add(aspect, b, value_b, a, value_a);
      return;
    }
    const double gain = b.log2_speedup - a.log2_speedup;
    if (!std::isfinite(gain)) return;
    const double weight = 1 / (a.variance + b.variance + Squared(kContextDeviation));
    Pairs& pairs = changes_[{aspect, value_a, value_b, std::string(a.bottleneck)}];
    ++pairs.trials;
    if (gain > 0) ++pairs.gains;
    pairs.weight += weight;
    pairs.sum += weight * gain;
    pairs.squares += weight * gain * gain;
  }

  std::vector<Lesson> Lessons() const {
    std::vector<Lesson> lessons;
    for (const auto& [change, pairs] : changes_) {
      Lesson lesson;
      lesson.family = search_.family;
      lesson.target = search_.target;
      lesson.device_model = search_.device_model;
      std::tie(lesson.aspect, lesson.from, lesson.to, lesson.bottleneck) = change;
      lesson.trials = pairs.trials;
      lesson.mean_log2_gain = pairs.sum / pairs.weight;
      lesson.held = lesson.mean_log2_gain < 0 ? pairs.trials - pairs.gains : pairs.gains;
      if (pairs.trials > 1) {
        const double variance =
            std::max(0.0, pairs.squares / pairs.weight - Squared(lesson.mean_log2_gain));
        lesson.stddev_log2_gain = std::sqrt(variance * pairs.trials / (pairs.trials - 1.0));
      }
      lesson.searches = 1;
      if (ValidateLesson(lesson).ok()) lessons.push_back(std::move(lesson));
    }
    std::ranges::sort(lessons, {}, KeyOf);
    return lessons;
  }

 private:
  // Aspect, from, to, bottleneck.
  using Change = std::tuple<std::string, std::string, std::string, std::string>;

  const SearchOutcome& search_;
  std::map<Change, Pairs> changes_;
};

const std::string* TemplateOf(const Candidate& candidate) {
  if (candidate.tunables.empty() || candidate.tunables.front().name != kTemplateTunable) {
    return nullptr;
  }
  return &candidate.tunables.front().value;
}

// For FLAGS, the flags instead of their index, which differs between templates.
std::string ValueOf(const Candidate& candidate, const Tunable& tunable) {
  if (tunable.name != kFlagsTunable) return tunable.value;
  return candidate.flags.empty() ? "none" : absl::StrJoin(candidate.flags, " ");
}

// Pairs of points of one template that differ in one parameter.
void AddParameters(const std::vector<Measured>& points, Learner& learner) {
  // By the parameter's name and all other tunables.
  std::map<std::pair<std::string, std::string>,
           std::vector<std::pair<const Measured*, std::string>>>
      groups;
  for (const Measured& point : points) {
    const std::vector<Tunable>& tunables = point.candidate->tunables;
    for (size_t i = 1; i < tunables.size(); ++i) {
      std::string others;
      for (size_t j = 0; j < tunables.size(); ++j) {
        if (j == i) continue;
        absl::StrAppend(&others, tunables[j].name, "=", tunables[j].value, " ");
      }
      groups[{tunables[i].name, std::move(others)}].emplace_back(
          &point, ValueOf(*point.candidate, tunables[i]));
    }
  }
  for (const auto& [parameter, group] : groups) {
    const std::string aspect = absl::StrCat("parameter ", parameter.first);
    for (size_t i = 0; i < group.size(); ++i) {
      for (size_t j = i + 1; j < group.size(); ++j) {
        learner.Add(aspect, *group[i].first, group[i].second, *group[j].first, group[j].second);
      }
    }
  }
}

void AddTemplates(const std::vector<Measured>& points, Learner& learner) {
  std::map<std::string, const Measured*> best;
  for (const Measured& point : points) {
    const Measured*& known = best[*TemplateOf(*point.candidate)];
    if (known == nullptr || point.log2_speedup > known->log2_speedup) known = &point;
  }
  for (auto a = best.begin(); a != best.end(); ++a) {
    for (auto b = std::next(a); b != best.end(); ++b) {
      learner.Add("template", *a->second, a->first, *b->second, b->first);
    }
  }
}

// The only trait in which the kernels differ: its index. Nothing: none, or more than one.
std::optional<size_t> OnlyDifference(const std::vector<KernelTrait>& a,
                                     const std::vector<KernelTrait>& b) {
  if (a.size() != b.size()) return std::nullopt;
  std::optional<size_t> different;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (different || a[i].name != b[i].name) return std::nullopt;
    different = i;
  }
  return different;
}

void AddDerived(const Measured& parent, const Measured& child, Learner& learner) {
  const std::vector<KernelTrait> before = TraitsOf(*parent.facts);
  const std::vector<KernelTrait> after = TraitsOf(*child.facts);
  const std::optional<size_t> changed = OnlyDifference(before, after);
  if (!changed) return;
  learner.Add(std::string(before[*changed].name), parent, before[*changed].value, child,
              after[*changed].value);
}

}  // namespace

std::vector<Lesson> LearnLessons(const SearchOutcome& search) {
  Learner learner(search);
  std::vector<Measured> points;
  std::map<std::string_view, Measured> derived;  // by id
  const Candidate reference;
  if (!search.reference_id.empty()) {
    derived.emplace(search.reference_id,
                    MeasuredOf(reference, search.reference_facts, {1, 1, 1, 0}));
  }
  for (const MeasuredKernel& kernel : search.kernels) {
    const Measured measured = MeasuredOf(kernel.candidate, kernel.facts, kernel.speedup);
    if (TemplateOf(kernel.candidate) != nullptr) {
      points.push_back(measured);
    } else {
      derived.emplace(kernel.candidate.candidate_id, measured);
    }
  }
  AddParameters(points, learner);
  AddTemplates(points, learner);
  for (const auto& [id, child] : derived) {
    const auto parent = derived.find(child.candidate->parent_candidate_id);
    if (parent != derived.end() && parent->first != id) AddDerived(parent->second, child, learner);
  }
  return learner.Lessons();
}

}  // namespace kernelcast::cli
