#include "services/forecaster/core/simulation_features.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "common/domain/problem.h"

namespace kernelcast::forecaster {
namespace {

// Time that each resource alone would need.
constexpr std::string_view kTimes[] = {
    "dram_ns", "l2_ns",      "load_store_ns", "issue_ns",  "float32_ns", "integer_ns", "float64_ns",
    "half_ns", "special_ns", "conversion_ns", "tensor_ns", "atomics_ns", "latency_ns"};
// Averaged over launches without transformation.
constexpr std::string_view kLaunchRatios[] = {"load_efficiency",
                                              "store_efficiency",
                                              "shared_load_conflicts",
                                              "shared_store_conflicts",
                                              "divergent_share",
                                              "active_lane_share",
                                              "l2_reuse"};
// Averaged as log2(1 + value).
constexpr std::string_view kAmounts[] = {"loads_in_flight", "bytes_in_flight", "resident_blocks",
                                         "block_warps"};
// Summed, as log2(1 + sum).
constexpr std::string_view kSums[] = {"instructions",
                                      "issue_slots",
                                      "dram_bytes",
                                      "l2_bytes",
                                      "barriers",
                                      "shared_bytes_moved",
                                      "shuffles",
                                      "global_atomic_hottest",
                                      "shared_atomic_requests",
                                      "matrix_products",
                                      "block_cycles",
                                      "local_sectors"};

constexpr size_t kFeatures =
    1 + std::size(kTimes) + 6 + std::size(kLaunchRatios) + std::size(kAmounts) + std::size(kSums);

// Index of the first of kTimes among the features.
constexpr size_t kFirstTime = 1;

constexpr float kNoSimulation = std::numeric_limits<float>::quiet_NaN();
// Shares of time below this are treated as equal.
constexpr double kLeastShare = 0.05;
// Cost of a launch outside the simulation.
constexpr double kLaunchNs = 2000;
constexpr double kWarpsOfAMultiprocessor = 64;

// Indices of the facts among the schema's values.
struct Positions {
  std::array<size_t, std::size(kTimes)> times;
  std::array<size_t, std::size(kLaunchRatios)> ratios;
  std::array<size_t, std::size(kAmounts)> amounts;
  std::array<size_t, std::size(kSums)> sums;
  size_t estimated_ns, waves, resident_blocks, block_warps;
  size_t values;

  Positions() {
    const FactSchema& schema = **FindSimulationSchema(kCudaSimulationSchemaId);
    const auto find = [&](std::string_view name) {
      return static_cast<size_t>(std::find(schema.names.begin(), schema.names.end(), name) -
                                 schema.names.begin());
    };
    std::transform(std::begin(kTimes), std::end(kTimes), times.begin(), find);
    std::transform(std::begin(kLaunchRatios), std::end(kLaunchRatios), ratios.begin(), find);
    std::transform(std::begin(kAmounts), std::end(kAmounts), amounts.begin(), find);
    std::transform(std::begin(kSums), std::end(kSums), sums.begin(), find);
    estimated_ns = find("estimated_ns");
    waves = find("waves");
    resident_blocks = find("resident_blocks");
    block_warps = find("block_warps");
    values = schema.names.size();
  }
};

const Positions& SchemaPositions() {
  static const Positions& kPositions = *new Positions();
  return kPositions;
}

// Adds the features of one shape. Returns false if the shape is not supported.
bool AddShape(const ShapeSimulation& shape, std::array<double, kFeatures>& features) {
  const Positions& at = SchemaPositions();
  if (shape.schema != kCudaSimulationSchemaId || shape.launches.empty()) return false;
  double total = 0;
  for (const LaunchSimulation& launch : shape.launches) {
    if (launch.values.size() != at.values || !(launch.values[at.estimated_ns] > 0)) return false;
    total += launch.values[at.estimated_ns];
  }
  std::array<double, std::size(kTimes)> times = {};
  std::array<double, std::size(kLaunchRatios)> ratios = {};
  std::array<double, std::size(kAmounts)> amounts = {};
  std::array<double, std::size(kSums)> sums = {};
  double largest = 0;
  double occupancy = 0;
  double waves = 0;
  double tail = 0;
  for (const LaunchSimulation& launch : shape.launches) {
    const std::vector<double>& v = launch.values;
    const double weight = v[at.estimated_ns] / total;
    double most = 0;
    for (size_t i = 0; i < times.size(); ++i) {
      times[i] += v[at.times[i]];
      most = std::max(most, v[at.times[i]]);
    }
    largest += most;
    for (size_t i = 0; i < ratios.size(); ++i) ratios[i] += weight * v[at.ratios[i]];
    for (size_t i = 0; i < amounts.size(); ++i) {
      amounts[i] += weight * std::log2(1 + v[at.amounts[i]]);
    }
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += v[at.sums[i]];
    occupancy += weight * v[at.resident_blocks] * v[at.block_warps] / kWarpsOfAMultiprocessor;
    const double launch_waves = std::max(v[at.waves], 1e-3);
    waves += weight * std::log2(launch_waves);
    tail += weight * std::ceil(launch_waves) / launch_waves;
  }
  size_t next = 0;
  features[next++] += std::log2(total);
  for (const double ns : times) features[next++] += std::log2(ns / total + kLeastShare);
  features[next++] += std::log2(largest / total + kLeastShare);
  features[next++] += occupancy;
  features[next++] += waves;
  features[next++] += std::log2(tail);
  const auto launches = static_cast<double>(shape.launches.size());
  features[next++] += std::log2(1 + kLaunchNs * launches / total);
  features[next++] += std::log2(launches);
  for (const double ratio : ratios) features[next++] += ratio;
  for (const double amount : amounts) features[next++] += amount;
  for (const double sum : sums) features[next++] += std::log2(1 + sum);
  return true;
}

}  // namespace

std::span<const std::string_view> SimulationFeatureNames() {
  static const std::vector<std::string_view>& kNames = *new std::vector<std::string_view>([] {
    std::vector<std::string_view> names = {"estimated_ns"};
    names.insert(names.end(), std::begin(kTimes), std::end(kTimes));
    names.insert(names.end(),
                 {"largest_share", "occupancy", "waves", "tail", "launch_overhead", "launches"});
    names.insert(names.end(), std::begin(kLaunchRatios), std::end(kLaunchRatios));
    names.insert(names.end(), std::begin(kAmounts), std::end(kAmounts));
    names.insert(names.end(), std::begin(kSums), std::end(kSums));
    return names;
  }());
  return kNames;
}

size_t ScaleFreeFeaturesEnd() { return kFeatures - std::size(kSums); }

std::span<const std::string> SimulationRowNames() {
  static const std::vector<std::string>& kNames = *new std::vector<std::string>([] {
    const std::span<const std::string_view> features = SimulationFeatureNames();
    std::vector<std::string> names = {"log2_speedup"};
    for (size_t i = 1; i < kFeatures; ++i) names.push_back("diff." + std::string(features[i]));
    for (size_t i = 1; i < ScaleFreeFeaturesEnd(); ++i) {
      names.push_back("sim." + std::string(features[i]));
    }
    return names;
  }());
  return kNames;
}

std::vector<float> SimulationRow(std::span<const float> candidate,
                                 std::span<const float> reference) {
  std::vector<float> row;
  if (candidate.size() != kFeatures || reference.size() != kFeatures) return row;
  if (std::isnan(candidate[0]) || std::isnan(reference[0])) return row;
  row.reserve(kFeatures + ScaleFreeFeaturesEnd());
  row.push_back(reference[kSimulatedTimeFeature] - candidate[kSimulatedTimeFeature]);
  for (size_t i = 1; i < kFeatures; ++i) row.push_back(candidate[i] - reference[i]);
  row.insert(row.end(), candidate.begin() + 1,
             candidate.begin() + static_cast<ptrdiff_t>(ScaleFreeFeaturesEnd()));
  return row;
}

std::vector<float> ResourceShares(std::span<const float> simulation_row) {
  std::vector<float> shares;
  if (simulation_row.size() != SimulationRowNames().size()) return shares;
  const std::span<const float> changes = simulation_row.subspan(kFirstTime, std::size(kTimes));
  const std::span<const float> logs =
      simulation_row.subspan(kFeatures + kFirstTime - 1, std::size(kTimes));
  for (const float log : logs) {
    shares.push_back(std::exp2(log) - static_cast<float>(kLeastShare));
  }
  for (size_t i = 0; i < logs.size(); ++i) {
    shares.push_back(std::exp2(logs[i]) - std::exp2(logs[i] - changes[i]));
  }
  return shares;
}

std::vector<const ShapeSimulation*> SimulationsFor(const CompileFacts& facts,
                                                   std::string_view device_model) {
  std::vector<const ShapeSimulation*> chosen;
  if (facts.simulations.empty()) return chosen;
  const auto of = [&](std::string_view gpu) {
    for (const ShapeSimulation& shape : facts.simulations) {
      if (shape.gpu == gpu) chosen.push_back(&shape);
    }
  };
  of(device_model);
  if (chosen.empty()) of(facts.simulations.front().gpu);
  return chosen;
}

std::vector<float> SimulationFeatures(const CompileFacts& facts, std::string_view device_model,
                                      std::span<const double> bench_weights) {
  std::vector<float> row(kFeatures, kNoSimulation);
  std::array<double, kFeatures> sums = {};
  const std::vector<const ShapeSimulation*> simulations = SimulationsFor(facts, device_model);
  if (simulations.empty()) return row;
  const std::vector<double> weights = NormalizedWeights(bench_weights, simulations.size());
  for (size_t shape = 0; shape < simulations.size(); ++shape) {
    std::array<double, kFeatures> features = {};
    if (!AddShape(*simulations[shape], features)) return row;
    for (size_t i = 0; i < kFeatures; ++i) sums[i] += weights[shape] * features[i];
  }
  row.assign(sums.begin(), sums.end());
  return row;
}

}  // namespace kernelcast::forecaster
