#include "services/orchestrator/core/template_generator.h"

#include <algorithm>
#include <utility>

namespace kernelcast::orchestrator {
namespace {

constexpr size_t kElites = 12;
// Number of measured points before variation starts, and the share of random points afterwards.
constexpr size_t kElitesBeforeVariation = 4;
constexpr double kRandomShare = 0.35;
constexpr double kCrossoverShare = 0.35;
constexpr double kNeighbourShare = 0.7;
constexpr int kVariationAttempts = 16;
// A template with fewer points than this share of the mean rarely contains the best point, so it is
// not in the start set.
constexpr double kLeastStartShare = 0.5;

uint64_t SplitMix64(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

double UnitInterval(uint64_t& state) {
  return static_cast<double>(SplitMix64(state) >> 11) * 0x1.0p-53;
}

size_t Below(uint64_t& state, size_t bound) {
  return static_cast<size_t>(SplitMix64(state) % bound);
}

}  // namespace

TemplateGenerator::TemplateGenerator(std::shared_ptr<const Problem> problem, std::string target,
                                     uint64_t seed)
    : problem_(std::move(problem)), target_(std::move(target)), seed_(seed) {
  points_ = EnumeratePoints(space());
  seen_.assign(points_.size(), false);
  for (size_t i = 0; i < points_.size(); ++i) {
    index_by_point_[points_[i]] = i;
    index_by_id_[CandidateFromPoint(space(), points_[i], problem_->problem_id).candidate_id] = i;
  }
  const double least = kLeastStartShare * static_cast<double>(points_.size()) /
                       static_cast<double>(std::max<size_t>(space().templates.size(), 1));
  uint64_t random = seed_;
  for (size_t i = 0; i < space().templates.size(); ++i) {
    const auto [first, last] = PointsOf(static_cast<int>(i));
    if (static_cast<double>(last - first) < least) continue;
    start_.push_back(first + Below(random, last - first));
    std::swap(start_.back(), start_[Below(random, start_.size())]);
  }
}

const Space& TemplateGenerator::space() const { return *problem_->targets.at(target_).space; }

std::optional<Candidate> TemplateGenerator::Next() const {
  if (proposed_ >= points_.size()) {
    return std::nullopt;
  }
  uint64_t random = seed_ * 0x2545f4914f6cdd1dull + proposed_ + 1;
  std::optional<size_t> index;
  for (const size_t point : start_) {
    if (seen_[point]) continue;
    index = point;
    break;
  }
  if (!index && elites_.size() >= kElitesBeforeVariation && UnitInterval(random) >= kRandomShare) {
    index = Vary(random);
  }
  if (!index) {
    index = RandomUnseen(random);
  }
  return CandidateFromPoint(space(), points_[*index], problem_->problem_id);
}

std::optional<size_t> TemplateGenerator::Vary(uint64_t& random) const {
  for (int attempt = 0; attempt < kVariationAttempts; ++attempt) {
    // The smaller of two draws, so that better parents are drawn more often.
    const size_t rank = std::min(Below(random, elites_.size()), Below(random, elites_.size()));
    SpacePoint point = points_[elites_[rank].point];
    const auto& dimensions = space().templates[point.template_index].dimensions;
    if (dimensions.empty()) continue;
    const SpacePoint& other = points_[elites_[Below(random, elites_.size())].point];
    if (UnitInterval(random) < kCrossoverShare && other.template_index == point.template_index) {
      for (size_t d = 0; d < dimensions.size(); ++d) {
        if (SplitMix64(random) & 1) point.values[d] = other.values[d];
      }
    } else {
      const size_t d = Below(random, dimensions.size());
      const int count = static_cast<int>(dimensions[d].values.size());
      if (UnitInterval(random) < kNeighbourShare) {
        const int step = (SplitMix64(random) & 1) ? 1 : -1;
        point.values[d] = std::clamp(point.values[d] + step, 0, count - 1);
      } else {
        point.values[d] = static_cast<int>(Below(random, static_cast<size_t>(count)));
      }
    }
    auto found = index_by_point_.find(point);
    if (found != index_by_point_.end() && !seen_[found->second]) {
      return found->second;
    }
  }
  return std::nullopt;
}

std::pair<size_t, size_t> TemplateGenerator::PointsOf(int template_index) const {
  const auto first = std::lower_bound(
      points_.begin(), points_.end(), template_index,
      [](const SpacePoint& point, int index) { return point.template_index < index; });
  const auto last = std::upper_bound(
      first, points_.end(), template_index,
      [](int index, const SpacePoint& point) { return index < point.template_index; });
  return {static_cast<size_t>(first - points_.begin()),
          static_cast<size_t>(last - points_.begin())};
}

size_t TemplateGenerator::RandomUnseen(uint64_t& random) const {
  // Draws a template first, so that a large one does not crowd out a small one.
  const size_t templates = space().templates.size();
  for (int attempt = 0; attempt < kVariationAttempts; ++attempt) {
    const auto [first, last] = PointsOf(static_cast<int>(Below(random, templates)));
    if (first == last) continue;
    const size_t candidate = first + Below(random, last - first);
    if (!seen_[candidate]) return candidate;
  }
  size_t nth = Below(random, points_.size() - proposed_);
  for (size_t i = 0;; ++i) {
    if (!seen_[i] && nth-- == 0) return i;
  }
}

void TemplateGenerator::Accept(std::string_view candidate_id) {
  auto found = index_by_id_.find(candidate_id);
  if (found == index_by_id_.end() || seen_[found->second]) {
    return;
  }
  seen_[found->second] = true;
  ++proposed_;
}

void TemplateGenerator::Reward(std::string_view candidate_id, double speedup) {
  auto found = index_by_id_.find(candidate_id);
  if (found == index_by_id_.end()) {
    return;
  }
  std::erase_if(elites_, [&](const Elite& elite) { return elite.point == found->second; });
  const auto position = std::find_if(elites_.begin(), elites_.end(),
                                     [&](const Elite& elite) { return elite.speedup < speedup; });
  elites_.insert(position, Elite{found->second, speedup});
  if (elites_.size() > kElites) {
    elites_.pop_back();
  }
}

std::optional<Candidate> TemplateGenerator::Find(std::string_view candidate_id) const {
  auto found = index_by_id_.find(candidate_id);
  if (found == index_by_id_.end()) {
    return std::nullopt;
  }
  return CandidateFromPoint(space(), points_[found->second], problem_->problem_id);
}

bool TemplateGenerator::IsStart(std::string_view candidate_id) const {
  auto found = index_by_id_.find(candidate_id);
  return found != index_by_id_.end() &&
         std::find(start_.begin(), start_.end(), found->second) != start_.end();
}

}  // namespace kernelcast::orchestrator
