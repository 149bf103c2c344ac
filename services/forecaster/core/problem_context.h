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

// Size of the work of a target's largest bench shape, on a log2 scale. One list for all problems,
// so that they can share a model.
inline constexpr std::string_view kWorkFeatureNames[] = {
    "work.log2_flops",           "work.log2_bytes",
    "work.log2_intensity",       "work.log2_input_elements",
    "work.log2_output_elements", "work.log2_largest_axis",
    "work.log2_smallest_axis",   "work.axes",
};

// Features of the launches of a device CUDA candidate at the target's largest bench shape. Those
// named log2 are log2(1 + value).
inline constexpr std::string_view kLaunchFeatureNames[] = {
    "launch.launches",            // number of launches
    "launch.log2_blocks",         // over all launches
    "launch.log2_threads",        // over all launches
    "launch.log2_block_threads",  // of the first launch
    "launch.log2_first_blocks",   // of the first launch
    "launch.log2_shared_bytes",   // dynamic, of the first launch
    "launch.log2_workspace_bytes",
};

// A problem and data derived from it once for forecasting. Immutable and thread-safe.
struct ProblemContext {
  explicit ProblemContext(Problem parsed);

  Problem problem;
  // By target of the problem.
  std::map<std::string, TunableEncoder, std::less<>> encoders;
  // By target. One value per kWorkFeatureNames; NaN if the problem does not declare it.
  std::map<std::string, std::vector<float>, std::less<>> work_features;
  // By target: bytes of all outputs at each bench shape.
  std::map<std::string, std::vector<double>, std::less<>> output_bytes;
  // By target: launch features of the reference.
  std::map<std::string, std::vector<float>, std::less<>> reference_launch_features;

  // By target: id of the reference as a candidate.
  std::map<std::string, std::string, std::less<>> reference_ids;

  // The encoder of a target. It has no columns if the target has no space.
  const TunableEncoder& EncoderFor(std::string_view target) const;
  // One value per kLaunchFeatureNames. NaN: the candidate has no launches, or they cannot be
  // evaluated.
  std::vector<float> LaunchFeatures(const Candidate& candidate) const;

 private:
  // By target: the largest bench shape.
  std::map<std::string, AxisValues, std::less<>> largest_shapes_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_PROBLEM_CONTEXT_H_
