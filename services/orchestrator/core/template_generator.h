#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_TEMPLATE_GENERATOR_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_TEMPLATE_GENERATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/domain/problem.h"

namespace kernelcast::orchestrator {

// Proposes each point of a template space at most once: first the start set, one point of each
// template that is not much smaller than the others; then random points until a few are measured;
// then mostly mutations and crossovers of the best measured points. Deterministic: the n-th
// proposal depends on the seed, n and the calls so far, so that replaying a log gives the same
// proposals. Not thread-safe.
class TemplateGenerator {
 public:
  // The problem must have a space for the target. It is kept alive.
  TemplateGenerator(std::shared_ptr<const Problem> problem, std::string target, uint64_t seed);

  size_t space_size() const { return points_.size(); }
  size_t proposed() const { return proposed_; }
  // Size of the start set.
  size_t start_size() const { return start_.size(); }

  // The candidate of the next point, or nothing once every point has been proposed. Does not change
  // the generator: a proposal counts only after Accept.
  std::optional<Candidate> Next() const;

  // As Next, with other rules. A random point that was not proposed yet:
  std::optional<Candidate> Random() const;
  // A mutation of a point, or a crossover with a second one, each given by its candidate. If
  // `first` is not in the space, the next point of the start set. A random point where none of
  // these is left.
  std::optional<Candidate> Derive(std::string_view first, std::string_view second) const;

  // A candidate was proposed. Candidates outside the space are ignored.
  void Accept(std::string_view candidate_id);
  // The candidate was measured as correct with this speedup.
  void Reward(std::string_view candidate_id, double speedup);

  // The candidate of a point, whether proposed or not. Empty if the id is not in the space.
  std::optional<Candidate> Find(std::string_view candidate_id) const;

  // Whether the candidate is in the space.
  bool Has(std::string_view candidate_id) const { return index_by_id_.contains(candidate_id); }

  // Whether the candidate is in the start set.
  bool IsStart(std::string_view candidate_id) const;

 private:
  struct Elite {
    size_t point;
    double speedup;
  };

  Candidate CandidateAt(size_t point) const;
  std::optional<size_t> UnseenStart() const;
  std::optional<size_t> VaryElites(uint64_t& random) const;
  // Nothing: the variation was proposed before, or there is none.
  std::optional<size_t> Vary(size_t parent, size_t mate, uint64_t& random) const;
  size_t RandomUnseen(uint64_t& random) const;
  size_t NthUnseen(size_t n) const;
  // The points of a template, as a range of indices.
  std::pair<size_t, size_t> PointsOf(int template_index) const;
  const Space& space() const;

  std::shared_ptr<const Problem> problem_;
  std::string target_;
  uint64_t seed_;
  std::vector<SpacePoint> points_;
  std::map<SpacePoint, size_t> index_by_point_;
  std::map<std::string, size_t, std::less<>> index_by_id_;
  std::vector<size_t> start_;  // in the order of proposal
  std::vector<bool> seen_;
  size_t proposed_ = 0;
  // Best first, at most kElites.
  std::vector<Elite> elites_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_TEMPLATE_GENERATOR_H_
