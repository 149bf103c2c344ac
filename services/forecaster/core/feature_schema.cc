#include "services/forecaster/core/feature_schema.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "services/forecaster/core/problem_context.h"

namespace kernelcast::forecaster {

FeatureSchema::FeatureSchema(std::string id, const FactSchema& facts, bool has_launches)
    : id_(std::move(id)),
      fact_schema_id_(facts.id),
      facts_(facts.names.size()),
      has_launches_(has_launches) {
  for (const std::string_view name : facts.names) {
    names_.push_back("fact." + std::string(name));
    names_.push_back("diff." + std::string(name));
  }
  if (has_launches) {
    for (const std::string_view name : kLaunchFeatureNames) {
      names_.emplace_back(name);
      names_.push_back("diff." + std::string(name));
    }
  }
  for (const std::string_view name : kWorkFeatureNames) names_.emplace_back(name);
}

const FeatureSchema* FeatureSchema::ForFacts(std::string_view fact_schema_id) {
  const auto make = [](std::string_view id, std::string_view facts_id,
                       bool has_launches) -> const FeatureSchema* {
    const absl::StatusOr<const FactSchema*> facts = FindFactSchema(facts_id);
    if (!facts.ok()) return nullptr;
    return new FeatureSchema(std::string(id), **facts, has_launches);
  };
  // Never destroyed, because threads may still read them while the program exits.
  static const FeatureSchema* const kCpu =
      make(kEmbeddedCpuSchemaId, kCpuAssemblySchemaId, /*has_launches=*/false);
  static const FeatureSchema* const kCuda =
      make(kEmbeddedCudaSchemaId, kCudaPtxSchemaId, /*has_launches=*/true);
  if (fact_schema_id == kCpuAssemblySchemaId) return kCpu;
  return fact_schema_id == kCudaPtxSchemaId ? kCuda : nullptr;
}

std::vector<float> FeatureSchema::Row(const CompileFacts& candidate, const CompileFacts& reference,
                                      std::span<const float> launch_features,
                                      std::span<const float> reference_launch_features,
                                      std::span<const float> work_features) const {
  std::vector<float> row;
  row.reserve(names_.size());
  for (size_t i = 0; i < facts_; ++i) {
    const float value = SignedLog1p(candidate.values[i]);
    row.push_back(value);
    row.push_back(value - SignedLog1p(reference.values[i]));
  }
  if (has_launches_) {
    for (size_t i = 0; i < launch_features.size(); ++i) {
      row.push_back(launch_features[i]);
      row.push_back(launch_features[i] - reference_launch_features[i]);
    }
  }
  row.insert(row.end(), work_features.begin(), work_features.end());
  return row;
}

float SignedLog1p(double value) {
  return static_cast<float>(std::copysign(std::log1p(std::abs(value)), value));
}

std::vector<float> ScaledFacts(const CompileFacts& facts) {
  std::vector<float> scaled;
  scaled.reserve(facts.values.size());
  for (const double value : facts.values) scaled.push_back(SignedLog1p(value));
  return scaled;
}

}  // namespace kernelcast::forecaster
