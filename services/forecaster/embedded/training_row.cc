#include "services/forecaster/embedded/training_row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/fnv.h"
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
  // Tasks take device code too, whose other facts their reference does not have.
  if (reference_facts.schema == kPythonSourceSchemaId &&
      (facts.schema == reference_facts.schema || facts.schema == kCudaPtxSchemaId)) {
    std::vector<float> simulated = SimulationFeatures(facts, device_model);
    features.simulation =
        SimulationRow(simulated, SimulationFeatures(reference_facts, device_model));
    features.is_recorded = !features.simulation.empty();
    if (features.is_recorded) features.facts = std::move(simulated);
    features.has_findings = facts.schema == kCudaPtxSchemaId && HasFindings(facts);
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
    features.has_wrong_outputs = LeavesOutputsUnwritten(facts, device_model, bytes->second);
  }
  features.has_wrong_outputs = features.has_wrong_outputs || HasWrongOutputs(facts);
  features.has_agreed_outputs =
      !features.has_findings && !features.has_wrong_outputs && HasAgreedOutputs(facts);
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

bool HasOwnFeatures(const CandidateFeatures& features) {
  const auto is_known = [](float value) { return !std::isnan(value); };
  // Columns of templates are 0 for a candidate without one.
  const auto is_given = [](float value) { return !std::isnan(value) && value != 0; };
  return features.template_index >= 0 || std::ranges::any_of(features.tunables, is_given) ||
         std::ranges::any_of(features.facts, is_known);
}

std::string EvidenceId(const CandidateFeatures& features) {
  // A ranking forecasts thousands of candidates, so this must be fast.
  uint64_t hash = kFnvBasis;
  const auto add = [&hash](uint32_t word) { hash = FnvStep(hash, word); };
  add(static_cast<uint32_t>(features.template_index));
  add((features.is_recorded ? 1 : 0) + (features.has_findings ? 2 : 0) +
      (features.has_wrong_outputs ? 4 : 0) + (features.has_agreed_outputs ? 8 : 0));
  for (const std::vector<float>* row : {&features.tunables, &features.facts, &features.shared,
                                        &features.simulation, &features.failure}) {
    add(static_cast<uint32_t>(row->size()));
    for (const float value : *row) {
      // NaNs have many representations, and zero has two.
      add(std::isnan(value) ? 0x7fc00000u : std::bit_cast<uint32_t>(value + 0.0f));
    }
  }
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

std::vector<float> EnsembleRow(const CandidateFeatures& features, size_t columns) {
  std::vector<float> row = features.tunables;
  row.insert(row.end(), features.facts.begin(), features.facts.end());
  row.resize(columns, std::numeric_limits<float>::quiet_NaN());
  return row;
}

}  // namespace kernelcast::forecaster
