#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_SIMULATION_FEATURES_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_SIMULATION_FEATURES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/facts.h"

namespace kernelcast::forecaster {

// What the embedded model sees of a virtual GPU's simulations (schema cuda-sim/1): one number per
// name, such that the difference of two candidates at the same shapes is a log2 ratio wherever the
// quantity is positive. Launches are added up, or averaged with the time that each is estimated to
// take as weight; shapes are averaged.
std::span<const std::string_view> SimulationFeatureNames();

// Position of the estimated time, log2 of nanoseconds, among the names.
inline constexpr size_t kSimulatedTimeFeature = 0;

// Of these, whose values say the same of small problems and of large ones: [1, end).
size_t ScaleFreeFeaturesEnd();

// What the embedded model sees beside the features that compiling alone gives.
inline constexpr std::string_view kEmbeddedSimulationSchemaId = "embedded-sim/1";

// Names of SimulationRow: "log2_speedup", by the estimates; "diff.NAME", candidate minus reference,
// of all features but the time; "sim.NAME" of the candidate's that are free of scale.
std::span<const std::string> SimulationRowNames();
// Empty where either has no SimulationFeatures.
std::vector<float> SimulationRow(std::span<const float> candidate,
                                 std::span<const float> reference);

// NaN throughout where there is nothing, a launch is not covered, or the schema is another one.
std::vector<float> SimulationFeatures(const CompileFacts& facts);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_SIMULATION_FEATURES_H_
