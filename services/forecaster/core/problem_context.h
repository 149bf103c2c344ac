#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_PROBLEM_CONTEXT_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_PROBLEM_CONTEXT_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/problem.h"
#include "services/forecaster/core/tunable_encoder.h"

namespace kernelcast::forecaster {

// Figures of the work that a problem's largest bench shape is, on a log2 scale. One list for all
// problems, so that a model can be shared among them.
inline constexpr std::string_view kWorkFeatureNames[] = {
    "work.log2_flops",           "work.log2_bytes",
    "work.log2_intensity",       "work.log2_input_elements",
    "work.log2_output_elements", "work.log2_largest_axis",
    "work.log2_smallest_axis",   "work.axes",
};

// A problem with what forecasting derives from it once. Immutable; thread-safe.
struct ProblemContext {
  explicit ProblemContext(Problem parsed);

  Problem problem;
  // One value per kWorkFeatureNames; NaN where the problem does not say.
  std::vector<float> work_features;
  // Per target that the problem has.
  std::map<std::string, TunableEncoder, std::less<>> encoders;

  // Id of the reference as a candidate, per target.
  std::map<std::string, std::string, std::less<>> reference_ids;

  // The encoder of a target; one without columns where the target has no space.
  const TunableEncoder& EncoderFor(std::string_view target) const;
  // Bytes of the problem's files.
  size_t SizeBytes() const;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_PROBLEM_CONTEXT_H_
