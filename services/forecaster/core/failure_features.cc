#include "services/forecaster/core/failure_features.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "services/forecaster/core/simulation_features.h"

namespace kernelcast::forecaster {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

size_t PositionIn(const FactSchema& schema, std::string_view name) {
  return static_cast<size_t>(std::find(schema.names.begin(), schema.names.end(), name) -
                             schema.names.begin());
}

// Counts of cuda-sim/1 by name.
class Counts {
 public:
  explicit Counts(std::vector<double> values) : values_(std::move(values)) {}

  // NaN without values.
  double operator()(std::string_view name) const {
    if (values_.empty()) return kUnknown;
    return values_[PositionIn(**FindSimulationSchema(kCudaSimulationSchemaId), name)];
  }
  double FloatOperations() const {
    return (*this)("float32_operations") + (*this)("half_operations") +
           (*this)("float64_operations");
  }

 private:
  std::vector<double> values_;
};

// Bytes that lanes load ("load") or store ("store") in one launch. Not for sums of several: they
// add ratios.
double BytesOf(const Counts& launch, const std::string& what) {
  double sectors = 0;
  for (const char* width : {"1", "2", "4", "8", "16"}) {
    sectors += launch(what + "_requests_" + width) * launch(what + "_sectors_" + width);
  }
  return 32 * sectors * launch(what + "_efficiency");
}

// Sums over all launches at all bench shapes.
struct Totals {
  // Only its counts mean something, not its ratios and times.
  Counts counts{{}};
  double loaded_bytes = kUnknown;
  double stored_bytes = kUnknown;
  double warps = kUnknown;
  double active_lane_share = kUnknown;
  double divergent_share = kUnknown;
};

// Unknown unless all launches were simulated.
Totals TotalsOf(const CompileFacts& facts, std::string_view device_model) {
  const FactSchema& schema = **FindSimulationSchema(kCudaSimulationSchemaId);
  std::vector<double> sums;
  double loaded = 0, stored = 0, warps = 0, active = 0, divergent = 0;
  for (const ShapeSimulation* shape : SimulationsFor(facts, device_model)) {
    for (const LaunchSimulation& simulation : shape->launches) {
      if (shape->schema != schema.id || simulation.values.size() != schema.names.size()) return {};
      const Counts launch(simulation.values);
      sums.resize(schema.names.size(), 0.0);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += simulation.values[i];
      loaded += BytesOf(launch, "load") + launch("async_bytes");
      stored += BytesOf(launch, "store");
      warps += launch("blocks") * launch("block_warps");
      active += launch("active_lane_share") * launch("instructions");
      divergent += launch("divergent_share") * launch("branches");
    }
  }
  if (sums.empty()) return {};
  Totals totals{Counts(std::move(sums)), loaded, stored, warps};
  totals.active_lane_share = active / std::max(1.0, totals.counts("instructions"));
  totals.divergent_share = divergent / std::max(1.0, totals.counts("branches"));
  return totals;
}

template <class Predicate>
bool AnyFinding(const CompileFacts& facts, Predicate holds) {
  return std::any_of(facts.simulations.begin(), facts.simulations.end(), [&](const auto& shape) {
    return std::any_of(shape.launches.begin(), shape.launches.end(),
                       [&](const LaunchSimulation& launch) {
                         return std::any_of(launch.findings.begin(), launch.findings.end(), holds);
                       });
  });
}

// Stores of fewer bytes than the outputs hold, by more than this, are missing stores.
constexpr double kLeastStoredShare = 0.9;
constexpr double kMostAtomicBytes = 16;

// Whether every instruction of every warp was executed. Otherwise the counts are scaled up from a
// sample, and warps, blocks or iterations outside the sample may store what is missing.
bool IsFullyExecuted(const Counts& launch) {
  return launch("sampled_blocks") == launch("blocks") &&
         launch("sampled_warps") == launch("blocks") * launch("block_warps") &&
         launch("inferred_share") == 0;
}

// Bytes that the launches of a shape can have written to global memory. NaN unless all of them were
// fully executed.
double WrittenBytes(const ShapeSimulation& shape) {
  const FactSchema& schema = **FindSimulationSchema(kCudaSimulationSchemaId);
  if (shape.schema != schema.id || shape.launches.empty()) return kUnknown;
  double bytes = 0;
  for (const LaunchSimulation& launch : shape.launches) {
    if (launch.values.size() != schema.names.size()) return kUnknown;
    const Counts counts(launch.values);
    if (!IsFullyExecuted(counts)) return kUnknown;
    bytes += BytesOf(counts, "store") + kMostAtomicBytes * counts("global_atomics");
  }
  return bytes;
}

// Log2 ratio of counts that may be zero.
double LogRatio(double a, double b) { return std::log2((a + 1) / (b + 1)); }

// Simulated counts, relative to the reference's.
constexpr std::string_view kRatios[] = {
    "special_functions", "half_operations", "predicates",     "conversions",   "barriers",
    "shuffles",          "votes",           "shared_atomics", "global_atomics"};
// Shares of the executed instructions.
constexpr std::string_view kShares[] = {"predicates", "conversions", "barriers", "control"};
// PTX counts, relative to the reference's.
constexpr std::string_view kStaticRatios[] = {"fp32_compare", "predicates",        "branches",
                                              "conversions",  "special_functions", "loops"};
// Shares of the PTX instructions.
constexpr std::string_view kStaticShares[] = {"predicates", "branches", "predicated"};

}  // namespace

std::span<const std::string> FailureRowNames() {
  static const std::vector<std::string>& kNames = *new std::vector<std::string>([] {
    std::vector<std::string> names = {
        "ratio.stored_bytes",    "ratio.stored_bytes_absolute", "ratio.loaded_bytes",
        "ratio.unique_bytes",    "ratio.float_operations",      "ratio.blocks",
        "share.half_operations", "diff.half_operations_share",  "active_lane_share",
        "divergent_share",       "barriers_of_a_warp",          "barriers_of_a_shared_store"};
    for (const std::string_view name : kRatios) names.push_back("ratio." + std::string(name));
    for (const std::string_view name : kShares) names.push_back("share." + std::string(name));
    for (const std::string_view name : kStaticRatios) {
      names.push_back("ratio.static." + std::string(name));
    }
    for (const std::string_view name : kStaticShares) {
      names.push_back("share.static." + std::string(name));
    }
    return names;
  }());
  return kNames;
}

std::vector<float> FailureRow(const CompileFacts& candidate, const CompileFacts& reference,
                              std::string_view device_model) {
  const Totals totals = TotalsOf(candidate, device_model);
  const Totals reference_totals = TotalsOf(reference, device_model);
  const Counts& own = totals.counts;
  const Counts& other = reference_totals.counts;
  std::vector<double> row;
  const double stored = LogRatio(totals.stored_bytes, reference_totals.stored_bytes);
  row.push_back(stored);
  row.push_back(std::abs(stored));
  row.push_back(LogRatio(totals.loaded_bytes, reference_totals.loaded_bytes));
  row.push_back(LogRatio(own("unique_bytes"), other("unique_bytes")));
  row.push_back(LogRatio(own.FloatOperations(), other.FloatOperations()));
  row.push_back(LogRatio(own("blocks"), other("blocks")));
  const double half = own("half_operations") / (own.FloatOperations() + 1);
  row.push_back(half);
  row.push_back(half - other("half_operations") / (other.FloatOperations() + 1));
  row.push_back(totals.active_lane_share);
  row.push_back(totals.divergent_share);
  row.push_back(own("barriers") / (totals.warps + 1));
  row.push_back(LogRatio(own("barriers"), own("shared_store_requests")));
  for (const std::string_view name : kRatios) row.push_back(LogRatio(own(name), other(name)));
  for (const std::string_view name : kShares) {
    row.push_back(own(name) / (own("instructions") + 1));
  }
  const FactSchema& schema = **FindFactSchema(kCudaPtxSchemaId);
  for (const std::string_view name : kStaticRatios) {
    const size_t at = PositionIn(schema, name);
    row.push_back(std::log1p(candidate.values[at]) - std::log1p(reference.values[at]));
  }
  const double instructions = candidate.values[PositionIn(schema, "instructions")] + 1;
  for (const std::string_view name : kStaticShares) {
    row.push_back(candidate.values[PositionIn(schema, name)] / instructions);
  }
  return {row.begin(), row.end()};
}

bool HasFindings(const CompileFacts& facts) {
  return AnyFinding(facts, [](const Finding&) { return true; });
}

bool HasWrongOutputs(const CompileFacts& facts) {
  return AnyFinding(facts, [](const Finding& finding) { return IsWrongOutput(finding.kind); });
}

bool HasAgreedOutputs(const CompileFacts& facts) {
  return std::any_of(facts.simulations.begin(), facts.simulations.end(), OutputsAgreed);
}

bool LeavesOutputsUnwritten(const CompileFacts& facts, std::string_view device_model,
                            std::span<const double> output_bytes) {
  const std::vector<const ShapeSimulation*> shapes = SimulationsFor(facts, device_model);
  for (size_t i = 0; i < std::min(shapes.size(), output_bytes.size()); ++i) {
    if (WrittenBytes(*shapes[i]) < kLeastStoredShare * output_bytes[i]) return true;
  }
  return false;
}

}  // namespace kernelcast::forecaster
