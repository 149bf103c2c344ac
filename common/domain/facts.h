#ifndef KERNELCAST_COMMON_DOMAIN_FACTS_H_
#define KERNELCAST_COMMON_DOMAIN_FACTS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

// A named, versioned list of what compiling tells. The order of `names` is the order of
// CompileFacts.values; a change of names, order or meaning makes a new schema.
struct FactSchema {
  std::string_view id;
  std::span<const std::string_view> names;
  std::span<const std::string_view> meanings;  // one line each, for documentation
};

// Facts read from the assembly of a host-native candidate on x86-64.
inline constexpr std::string_view kCpuAssemblySchemaId = "cpu-asm/1";
// Facts read from the PTX and the cubin of a device CUDA candidate.
inline constexpr std::string_view kCudaPtxSchemaId = "cuda-ptx/1";

// What a virtual GPU tells of one launch of a device CUDA candidate.
inline constexpr std::string_view kCudaSimulationSchemaId = "cuda-sim/1";
inline constexpr size_t kMaxSimulations = 64;
inline constexpr size_t kMaxSimulatedLaunches = 64;

// NOT_FOUND, listing the known ids.
[[nodiscard]] absl::StatusOr<const FactSchema*> FindFactSchema(std::string_view id);
std::span<const FactSchema> AllFactSchemas();
// The same for simulations, which have schemas of their own.
[[nodiscard]] absl::StatusOr<const FactSchema*> FindSimulationSchema(std::string_view id);

struct LaunchSimulation {
  std::string kernel;
  std::vector<double> values;  // of the simulation's schema; empty where it is not covered
  std::string not_covered;     // what the virtual GPU cannot follow; empty: nothing
};

// What a virtual GPU saw of the launches at one shape, without a GPU.
struct ShapeSimulation {
  std::string schema;
  std::string gpu;  // the model that times are of, e.g. "NVIDIA H200"
  std::vector<LaunchSimulation> launches;
};

struct CompileFacts {
  std::string schema;
  std::vector<double> values;
  // Of the bench shapes in their order, or empty: nothing was simulated.
  std::vector<ShapeSimulation> simulations = {};
};

// INVALID_ARGUMENT: unknown schema, wrong length, value not finite, too many simulations.
[[nodiscard]] absl::Status ValidateFacts(const CompileFacts& facts);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_FACTS_H_
