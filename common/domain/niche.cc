#include "common/domain/niche.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kernelcast {
namespace {

constexpr int kMaxLaunches = 4;
// Inner loops with fewer operations for each byte are bound by memory.
constexpr double kFlopsPerByte = 1;

constexpr std::array<std::string_view, 13> kTimes = {
    "dram_ns", "l2_ns",      "load_store_ns", "issue_ns",  "float32_ns", "integer_ns", "float64_ns",
    "half_ns", "special_ns", "conversion_ns", "tensor_ns", "atomics_ns", "latency_ns"};

struct Access {
  std::string_view fact;
  int log2_bytes;
};
// Widest first.
constexpr std::array<Access, 10> kAccesses = {{{"load_global_16", 4},
                                               {"store_global_16", 4},
                                               {"load_global_8", 3},
                                               {"store_global_8", 3},
                                               {"load_global_4", 2},
                                               {"store_global_4", 2},
                                               {"load_global_2", 1},
                                               {"store_global_2", 1},
                                               {"load_global_1", 0},
                                               {"store_global_1", 0}}};

// Values by name, 0 for names that the schema lacks.
class NamedValues {
 public:
  NamedValues(const absl::StatusOr<const FactSchema*>& schema, std::span<const double> values)
      : names_(schema.ok() ? (*schema)->names : std::span<const std::string_view>()),
        values_(values) {}
  double Of(std::string_view name) const {
    const auto found = std::ranges::find(names_, name);
    const auto i = static_cast<size_t>(found - names_.begin());
    return i < std::min(names_.size(), values_.size()) ? values_[i] : 0;
  }

 private:
  const std::span<const std::string_view> names_;
  const std::span<const double> values_;
};

int Log2(double value) { return value >= 1 ? static_cast<int>(std::log2(value)) : 0; }

// The launch of the first shape that takes longest.
const LaunchSimulation* LongestLaunch(const CompileFacts& facts) {
  const LaunchSimulation* longest = nullptr;
  double most = 0;
  if (facts.simulations.empty()) return longest;
  const ShapeSimulation& shape = facts.simulations.front();
  for (const LaunchSimulation& launch : shape.launches) {
    const double time =
        NamedValues(FindSimulationSchema(shape.schema), launch.values).Of("estimated_ns");
    if (launch.values.empty() || (longest != nullptr && time <= most)) continue;
    longest = &launch;
    most = time;
  }
  return longest;
}

Niche DeviceNiche(const CompileFacts& facts, const NamedValues& values) {
  Niche niche;
  niche.launches = std::min(kMaxLaunches, static_cast<int>(values.Of("launches")));
  niche.occupancy = static_cast<int>(std::ceil(4 * values.Of("launch_occupancy")));
  double threads = values.Of("launch_block_threads");
  for (const Access& access : kAccesses) {
    if (values.Of(access.fact) == 0) continue;
    niche.width = access.log2_bytes;
    break;
  }
  if (const LaunchSimulation* launch = LongestLaunch(facts)) {
    const NamedValues simulated(FindSimulationSchema(facts.simulations.front().schema),
                                launch->values);
    double most = 0;
    for (size_t i = 0; i < kTimes.size(); ++i) {
      const double time = simulated.Of(kTimes[i]);
      if (time <= most) continue;
      most = time;
      niche.bound = static_cast<int>(i) + 1;
    }
    threads = 32 * simulated.Of("block_warps");
  }
  niche.tile = Log2(threads);
  return niche;
}

Niche HostNiche(const NamedValues& values) {
  Niche niche;
  niche.bound = values.Of("inner_flops_per_byte") < kFlopsPerByte ? 1 : 2;
  niche.width = Log2(values.Of("inner_vector_bytes"));
  niche.tile = Log2(values.Of("inner_largest"));
  return niche;
}

// "128 to 255" for the power 7.
std::string RangeText(int log2) {
  const int64_t low = int64_t{1} << log2;
  return log2 == 0 ? "1" : absl::StrCat(low, " to ", 2 * low - 1);
}

void Append(const std::string& part, std::string& text) {
  absl::StrAppend(&text, text.empty() ? "" : ", ", part);
}

std::string DeviceText(const Niche& niche, std::string_view bound) {
  std::string text(bound);
  if (niche.occupancy > 0) Append(absl::StrCat(niche.occupancy, "/4 occupancy"), text);
  if (niche.width > 0) Append(absl::StrCat(1 << niche.width, " B accesses"), text);
  if (niche.tile > 0) Append(absl::StrCat(RangeText(niche.tile), " threads"), text);
  if (niche.launches > 0) {
    Append(absl::StrCat(niche.launches == kMaxLaunches ? "at least " : "", niche.launches,
                        niche.launches == 1 ? " launch" : " launches"),
           text);
  }
  return text;
}

std::string HostText(const Niche& niche, std::string_view bound) {
  std::string text(bound);
  if (niche.width > 0) Append(absl::StrCat(1 << niche.width, " B vectors"), text);
  if (niche.tile > 0) {
    Append(absl::StrCat(RangeText(niche.tile), " instructions in the inner loop"), text);
  }
  return text;
}

}  // namespace

std::string_view BoundName(const CompileFacts& facts) {
  const int bound = NicheOf(facts).bound;
  if (bound == 0) return "";
  if (facts.schema == kCpuAssemblySchemaId) return bound == 1 ? "memory" : "arithmetic";
  constexpr std::string_view kUnit = "_ns";
  std::string_view name = kTimes[static_cast<size_t>(bound - 1)];
  name.remove_suffix(kUnit.size());
  return name;
}

std::vector<KernelTrait> TraitsOf(const CompileFacts& facts) {
  const NamedValues values(FindFactSchema(facts.schema), facts.values);
  std::vector<KernelTrait> traits;
  const auto uses = [&](std::string_view name, std::initializer_list<std::string_view> counted) {
    const bool any =
        std::ranges::any_of(counted, [&](std::string_view fact) { return values.Of(fact) > 0; });
    traits.push_back({name, any ? "yes" : "no"});
  };
  const auto power = [&](std::string_view name, int exponent) {
    traits.push_back({name, std::to_string(1 << exponent)});
  };
  const Niche niche = NicheOf(facts);
  if (facts.schema == kCudaPtxSchemaId) {
    power("vector bytes", niche.width);
    power("threads per block", niche.tile);
    traits.push_back({"launches", std::to_string(niche.launches)});
    uses("shared memory", {"static_shared_bytes", "launch_dynamic_shared_bytes", "load_shared"});
    uses("tensor cores", {"mma_sync", "wgmma"});
    uses("asynchronous copies", {"cp_async", "bulk_copies"});
    uses("warp shuffles", {"warp_shuffles"});
    uses("global atomics", {"atomics_global"});
  } else if (facts.schema == kCpuAssemblySchemaId) {
    power("vector bytes", niche.width);
    power("accumulators", Log2(values.Of("inner_accumulators")));
    uses("fused multiply-adds", {"inner_fma_share"});
    uses("divisions in inner loops", {"inner_divide_sqrt"});
    uses("calls in inner loops", {"inner_calls", "inner_calls_math"});
    uses("gathers", {"inner_gathers"});
    uses("streaming stores", {"nontemporal_stores"});
    uses("prefetches", {"prefetches"});
  }
  return traits;
}

std::string NicheText(const CompileFacts& facts) {
  const Niche niche = NicheOf(facts);
  std::string text;
  if (facts.schema == kCudaPtxSchemaId) text = DeviceText(niche, BoundName(facts));
  if (facts.schema == kCpuAssemblySchemaId) text = HostText(niche, BoundName(facts));
  return text.empty() ? "unknown" : text;
}

Niche NicheOf(const CompileFacts& facts) {
  const NamedValues values(FindFactSchema(facts.schema), facts.values);
  if (facts.schema == kCudaPtxSchemaId) return DeviceNiche(facts, values);
  if (facts.schema == kCpuAssemblySchemaId) return HostNiche(values);
  return {};
}

}  // namespace kernelcast
