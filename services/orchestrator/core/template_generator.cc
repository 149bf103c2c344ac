#include "services/orchestrator/core/template_generator.h"

#include <algorithm>
#include <utility>

#include "common/base/split_mix.h"
#include "services/orchestrator/core/draws.h"

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

}  // namespace

TemplateGenerator::TemplateGenerator(std::shared_ptr<const Problem> problem, std::string target,
                                     uint64_t seed)
    : problem_(std::move(problem)), target_(std::move(target)), seed_(seed) {
  points_ = EnumeratePoints(space());
  seen_.assign(points_.size(), false);
  for (size_t i = 0; i < points_.size(); ++i) {
    index_by_point_[points_[i]] = i;
    index_by_id_[CandidateAt(i).candidate_id] = i;
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

Candidate TemplateGenerator::CandidateAt(size_t point) const {
  return CandidateFromPoint(space(), points_[point], problem_->problem_id);
}

std::optional<size_t> TemplateGenerator::UnseenStart() const {
  const auto unseen = std::ranges::find_if(start_, [&](size_t point) { return !seen_[point]; });
  return unseen == start_.end() ? std::nullopt : std::optional(*unseen);
}

std::optional<Candidate> TemplateGenerator::Next() const {
  if (proposed_ >= points_.size()) {
    return std::nullopt;
  }
  uint64_t random = DrawState(seed_, proposed_);
  std::optional<size_t> index = UnseenStart();
  if (!index && elites_.size() >= kElitesBeforeVariation && UnitInterval(random) >= kRandomShare) {
    index = VaryElites(random);
  }
  if (!index) {
    index = RandomUnseen(random);
  }
  return CandidateAt(*index);
}

std::optional<Candidate> TemplateGenerator::Random() const {
  if (proposed_ >= points_.size()) return std::nullopt;
  uint64_t random = DrawState(seed_, proposed_);
  return CandidateAt(NthUnseen(Below(random, points_.size() - proposed_)));
}

std::optional<Candidate> TemplateGenerator::Derive(std::string_view first,
                                                   std::string_view second) const {
  if (proposed_ >= points_.size()) return std::nullopt;
  uint64_t random = DrawState(seed_, proposed_);
  std::optional<size_t> index;
  const auto parent = index_by_id_.find(first);
  if (parent == index_by_id_.end()) {
    index = UnseenStart();
  } else {
    const auto other = index_by_id_.find(second);
    const size_t mate = other == index_by_id_.end() ? parent->second : other->second;
    for (int attempt = 0; attempt < kVariationAttempts && !index; ++attempt) {
      index = Vary(parent->second, mate, random);
    }
  }
  return CandidateAt(index ? *index : RandomUnseen(random));
}

std::optional<size_t> TemplateGenerator::VaryElites(uint64_t& random) const {
  for (int attempt = 0; attempt < kVariationAttempts; ++attempt) {
    // The smaller of two draws, so that better parents are drawn more often.
    const size_t rank = std::min(Below(random, elites_.size()), Below(random, elites_.size()));
    const size_t parent = elites_[rank].point;
    if (space().templates[points_[parent].template_index].dimensions.empty()) continue;
    const size_t mate = elites_[Below(random, elites_.size())].point;
    if (const std::optional<size_t> point = Vary(parent, mate, random)) return point;
  }
  return std::nullopt;
}

std::optional<size_t> TemplateGenerator::Vary(size_t parent, size_t mate, uint64_t& random) const {
  SpacePoint point = points_[parent];
  const auto& dimensions = space().templates[point.template_index].dimensions;
  if (dimensions.empty()) return std::nullopt;
  const SpacePoint& other = points_[mate];
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
  const auto found = index_by_point_.find(point);
  if (found == index_by_point_.end() || seen_[found->second]) return std::nullopt;
  return found->second;
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
  return NthUnseen(Below(random, points_.size() - proposed_));
}

size_t TemplateGenerator::NthUnseen(size_t n) const {
  for (size_t i = 0;; ++i) {
    if (!seen_[i] && n-- == 0) return i;
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
  return CandidateAt(found->second);
}

bool TemplateGenerator::IsStart(std::string_view candidate_id) const {
  auto found = index_by_id_.find(candidate_id);
  return found != index_by_id_.end() &&
         std::find(start_.begin(), start_.end(), found->second) != start_.end();
}

}  // namespace kernelcast::orchestrator
