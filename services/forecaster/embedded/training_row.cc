#include "services/forecaster/embedded/training_row.h"

#include <limits>
#include <utility>

#include "services/forecaster/core/failure_features.h"
#include "services/forecaster/core/feature_schema.h"
#include "services/forecaster/core/simulation_features.h"

namespace kernelcast::forecaster {

CandidateFeatures MakeFeatures(const ProblemContext& problem, const Candidate& candidate,
                               const CompileFacts& facts, const CompileFacts& reference_facts,
                               std::string_view device_model) {
  CandidateFeatures features;
  const TunableEncoder& encoder = problem.EncoderFor(candidate.target);
  features.template_index = encoder.TemplateIndex(candidate);
  features.tunables = encoder.Encode(candidate);
  if (facts.schema == kPythonSourceSchemaId && reference_facts.schema == facts.schema) {
    std::vector<float> simulated = SimulationFeatures(facts, device_model);
    features.simulation =
        SimulationRow(simulated, SimulationFeatures(reference_facts, device_model));
    features.is_recorded = !features.simulation.empty();
    if (features.is_recorded) features.facts = std::move(simulated);
    return features;
  }
  const FeatureSchema* schema = FeatureSchema::ForFacts(facts.schema);
  if (schema == nullptr || facts.values.size() != schema->facts()) return features;
  features.facts = ScaledFacts(facts);
  std::vector<float> launch;
  std::vector<float> simulated;
  const auto target = problem.problem.targets.find(candidate.target);
  const std::vector<double> weights = target == problem.problem.targets.end()
                                          ? std::vector<double>()
                                          : BenchWeights(target->second);
  if (schema->has_launches()) {
    launch = problem.LaunchFeatures(candidate);
    features.facts.insert(features.facts.end(), launch.begin(), launch.end());
    simulated = SimulationFeatures(facts, device_model, weights);
    features.facts.insert(features.facts.end(), simulated.begin(), simulated.end());
  }
  features.has_findings = HasFindings(facts);
  if (const auto bytes = problem.output_bytes.find(candidate.target);
      bytes != problem.output_bytes.end()) {
    features.leaves_outputs_unwritten = LeavesOutputsUnwritten(facts, device_model, bytes->second);
  }
  const auto work = problem.work_features.find(candidate.target);
  const auto reference_launch = problem.reference_launch_features.find(candidate.target);
  if (reference_facts.schema == facts.schema && reference_facts.values.size() == schema->facts() &&
      work != problem.work_features.end() &&
      reference_launch != problem.reference_launch_features.end()) {
    features.shared =
        schema->Row(facts, reference_facts, launch, reference_launch->second, work->second);
    if (schema->has_launches()) {
      features.simulation =
          SimulationRow(simulated, SimulationFeatures(reference_facts, device_model, weights));
      features.failure = FailureRow(facts, reference_facts, device_model);
    }
  }
  return features;
}

std::vector<float> EnsembleRow(const CandidateFeatures& features, size_t columns) {
  std::vector<float> row = features.tunables;
  row.insert(row.end(), features.facts.begin(), features.facts.end());
  row.resize(columns, std::numeric_limits<float>::quiet_NaN());
  return row;
}

}  // namespace kernelcast::forecaster
