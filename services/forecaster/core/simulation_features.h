#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_SIMULATION_FEATURES_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_SIMULATION_FEATURES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/facts.h"

namespace kernelcast::forecaster {

// Features of the simulations (schema cuda-sim/1). One number per name; the difference of two
// candidates at the same shapes is a log2 ratio if the quantity is positive. Launches are summed,
// or averaged with their estimated time as weight. Shapes are averaged.
std::span<const std::string_view> SimulationFeatureNames();

// Index of the estimated time, in log2 nanoseconds, among the names.
inline constexpr size_t kSimulatedTimeFeature = 0;

// Features whose values do not depend on the size of the problem: [1, end).
size_t ScaleFreeFeaturesEnd();

// Features from simulations, in addition to those from compile facts.
inline constexpr std::string_view kEmbeddedSimulationSchemaId = "embedded-sim/1";

// Names of SimulationRow: "log2_speedup" as estimated; "diff.NAME", candidate minus reference, for
// all features except the time; "sim.NAME" of the candidate for the size-independent features.
std::span<const std::string> SimulationRowNames();
// Empty if either has no SimulationFeatures.
std::vector<float> SimulationRow(std::span<const float> candidate,
                                 std::span<const float> reference);

// Where the time goes, from a SimulationRow: for each resource, the share of the candidate's time
// that it alone would need, then the same minus the reference's share. Empty for an empty row.
std::vector<float> ResourceShares(std::span<const float> simulation_row);

// The simulations for the device model. If there are none, those for the model of the first
// simulation.
std::vector<const ShapeSimulation*> SimulationsFor(const CompileFacts& facts,
                                                   std::string_view device_model);

// Features of SimulationsFor, averaged over the bench shapes by their weights (BenchWeights;
// empty: all are equal). All NaN if there are none, a launch is not supported, or the schema is a
// different one.
std::vector<float> SimulationFeatures(const CompileFacts& facts, std::string_view device_model,
                                      std::span<const double> bench_weights = {});

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_SIMULATION_FEATURES_H_
