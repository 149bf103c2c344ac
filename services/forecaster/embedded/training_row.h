#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_TRAINING_ROW_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_TRAINING_ROW_H_

#include <optional>
#include <string>
#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/facts.h"
#include "services/forecaster/core/problem_context.h"

namespace kernelcast::forecaster {

// What the embedded model sees of a candidate.
struct CandidateFeatures {
  int template_index = -1;
  // Columns of the problem's TunableEncoder.
  std::vector<float> tunables;
  // Scaled facts, and of device code the launch features and the SimulationFeatures; empty where
  // there are no facts of a schema that has features.
  std::vector<float> facts;
  // Row of the FeatureSchema; empty unless candidate and reference have such facts.
  std::vector<float> shared;
  // SimulationRow, which begins with the log2 speedup by a virtual GPU's estimates; empty unless
  // candidate and reference were simulated.
  std::vector<float> simulation;
};

CandidateFeatures MakeFeatures(const ProblemContext& problem, const Candidate& candidate,
                               const CompileFacts& facts, const CompileFacts& reference_facts);

// A label as the models are trained on it.
struct TrainingRow {
  CandidateFeatures features;
  // None: the candidate failed.
  std::optional<double> log2_speedup;
  // The failure was one of compiling.
  bool compile_error = false;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_TRAINING_ROW_H_
