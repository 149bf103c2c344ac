#include "services/forecaster/embedded/training_row.h"

#include "services/forecaster/core/feature_schema.h"

namespace kernelcast::forecaster {

CandidateFeatures MakeFeatures(const ProblemContext& problem, const Candidate& candidate,
                               const CompileFacts& facts, const CompileFacts& reference_facts) {
  CandidateFeatures features;
  const TunableEncoder& encoder = problem.EncoderFor(candidate.target);
  features.template_index = encoder.TemplateIndex(candidate);
  features.tunables = encoder.Encode(candidate);
  const FeatureSchema* schema = FeatureSchema::ForFacts(facts.schema);
  if (schema == nullptr || facts.values.size() != schema->facts()) return features;
  features.facts = ScaledFacts(facts);
  if (reference_facts.schema == facts.schema && reference_facts.values.size() == schema->facts()) {
    features.shared = schema->Row(facts, reference_facts, problem.work_features);
  }
  return features;
}

}  // namespace kernelcast::forecaster
