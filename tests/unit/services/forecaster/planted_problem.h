#ifndef KERNELCAST_TESTS_UNIT_SERVICES_FORECASTER_PLANTED_PROBLEM_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_FORECASTER_PLANTED_PROBLEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/facts.h"
#include "common/domain/problem.h"
#include "services/forecaster/core/label.h"
#include "services/forecaster/core/problem_context.h"

namespace kernelcast::forecaster {

// A problem whose candidates' speedups are a known function of their tunables, for tests of
// learning. Its space has 3 templates and 150 points.
class PlantedProblem {
 public:
  // `name` makes problems different; `shift` moves every log2 speedup.
  explicit PlantedProblem(const std::string& name = "planted", double shift = 0);

  const std::shared_ptr<const ProblemContext>& context() const { return context_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }
  size_t size() const { return candidates_.size(); }

  // The planted function, without noise.
  double Log2Speedup(size_t candidate) const;
  // Facts that correlate with the tunables.
  CompileFacts Facts(size_t candidate) const;
  CompileFacts ReferenceFacts() const;

  // A label with noise of the given deviation in log2, drawn from `seed` and the candidate.
  Label MakeLabel(size_t candidate, double noise = 0, uint64_t seed = 0) const;
  Label MakeFailure(size_t candidate, FailureKind kind) const;

  std::vector<size_t> Shuffled(uint64_t seed) const;

 private:
  double shift_;
  std::shared_ptr<const ProblemContext> context_;
  std::vector<Candidate> candidates_;
};

// Facts of a recorded Python candidate whose launches are estimated to take these times.
CompileFacts RecordedFacts(const std::vector<double>& times_ns);

// A standard normal number from a seed.
double NormalDraw(uint64_t seed);

std::vector<ProblemFile> PlantedFiles(const std::string& name);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_FORECASTER_PLANTED_PROBLEM_H_
