#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_FEATURE_SCHEMA_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_FEATURE_SCHEMA_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/facts.h"

namespace kernelcast::forecaster {

// What the embedded model sees of a host-native candidate on the cpu target.
inline constexpr std::string_view kEmbeddedCpuSchemaId = "embedded-cpu/1";
// And of a device CUDA candidate.
inline constexpr std::string_view kEmbeddedCudaSchemaId = "embedded-cuda/1";

// A named, versioned list of features made from compile facts. A change of names, order or meaning
// makes a new id. Counts enter as sign(x) ln(1 + |x|), so that a difference is a ratio.
//
// Per fact of the schema of facts: "fact.NAME" for the candidate, then "diff.NAME", candidate minus
// reference. Where facts are of device code, the same for each of the kLaunchFeatureNames:
// "launch.NAME", "diff.launch.NAME". Then the kWorkFeatureNames of the problem. Tunables are no
// part of it: their names mean something within one problem only (TunableEncoder).
class FeatureSchema {
 public:
  // The schema for facts of the given schema, nullptr where there is none.
  static const FeatureSchema* ForFacts(std::string_view fact_schema_id);

  const std::string& id() const { return id_; }
  const std::string& fact_schema_id() const { return fact_schema_id_; }
  std::span<const std::string> names() const { return names_; }
  size_t facts() const { return facts_; }
  // Whether rows tell of launches.
  bool has_launches() const { return has_launches_; }

  // The whole row. Both facts must be of fact_schema_id and valid; the launch features are left out
  // where there are none.
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
