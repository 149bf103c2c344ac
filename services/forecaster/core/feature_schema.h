#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_FEATURE_SCHEMA_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_FEATURE_SCHEMA_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/facts.h"

namespace kernelcast::forecaster {

// Features of a host-native candidate on the cpu target.
inline constexpr std::string_view kEmbeddedCpuSchemaId = "embedded-cpu/1";
// Features of a device CUDA candidate.
inline constexpr std::string_view kEmbeddedCudaSchemaId = "embedded-cuda/1";

// A named, versioned list of features derived from compile facts. A change of names, order or
// meaning requires a new id. Counts are transformed by sign(x) ln(1 + |x|), so that a difference is
// a ratio.
//
// For each fact in the schema of facts: "fact.NAME" of the candidate, then "diff.NAME", candidate
// minus reference. For device code the same for each of the kLaunchFeatureNames: "launch.NAME",
// "diff.launch.NAME". Then the kWorkFeatureNames of the problem. Tunables are not included, because
// their names have a meaning only within one problem (TunableEncoder).
class FeatureSchema {
 public:
  // The schema for facts of the given schema, or nullptr.
  static const FeatureSchema* ForFacts(std::string_view fact_schema_id);

  const std::string& id() const { return id_; }
  const std::string& fact_schema_id() const { return fact_schema_id_; }
  std::span<const std::string> names() const { return names_; }
  size_t facts() const { return facts_; }
  // Whether rows contain launch features.
  bool has_launches() const { return has_launches_; }

  // A complete row. Both facts must be valid and use fact_schema_id. Launch features are left out
  // if the schema has none.
  std::vector<float> Row(const CompileFacts& candidate, const CompileFacts& reference,
                         std::span<const float> launch_features,
                         std::span<const float> reference_launch_features,
                         std::span<const float> work_features) const;

 private:
  FeatureSchema(std::string id, const FactSchema& facts, bool has_launches);

  std::string id_;
  std::string fact_schema_id_;
  size_t facts_;
  bool has_launches_;
  std::vector<std::string> names_;
};

// sign(x) ln(1 + |x|).
float SignedLog1p(double value);

// SignedLog1p of each fact.
std::vector<float> ScaledFacts(const CompileFacts& facts);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_FEATURE_SCHEMA_H_
