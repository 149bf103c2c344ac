#ifndef KERNELCAST_COMMON_DOMAIN_FACTS_H_
#define KERNELCAST_COMMON_DOMAIN_FACTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

// A named, versioned list of compile facts. `names` are in the order of CompileFacts.values. A
// change of names, order or meaning requires a new schema.
struct FactSchema {
  std::string_view id;
  std::span<const std::string_view> names;
  std::span<const std::string_view> meanings;  // one line each, for documentation
};

// Facts read from the assembly of a host-native candidate on x86-64.
inline constexpr std::string_view kCpuAssemblySchemaId = "cpu-asm/1";
// Facts counted in the source of a Python candidate.
inline constexpr std::string_view kPythonSourceSchemaId = "python-source/1";
// Facts read from the PTX and the cubin of a device CUDA candidate.
inline constexpr std::string_view kCudaPtxSchemaId = "cuda-ptx/1";

// Values from simulating one launch of a device CUDA candidate on the CPU.
inline constexpr std::string_view kCudaSimulationSchemaId = "cuda-sim/1";
// LaunchSimulation::kernel of the only launch of a candidate whose launches are not known.
inline constexpr std::string_view kWholeCandidate = "the candidate";
inline constexpr size_t kMaxSimulations = 64;
inline constexpr size_t kMaxSimulatedLaunches = 64;

// Faults found while simulating a launch, without a GPU. The first version did not compare outputs.
inline constexpr std::string_view kCudaFindingsSchemaId = "cuda-findings/2";
inline constexpr std::string_view kCudaFaultsSchemaId = "cuda-findings/1";
inline constexpr size_t kMaxFindings = 32;  // per launch
inline constexpr size_t kMaxFindingDetail = 512;

// NOT_FOUND: unknown id; the message lists the known ids.
[[nodiscard]] absl::StatusOr<const FactSchema*> FindFactSchema(std::string_view id);
std::span<const FactSchema> AllFactSchemas();
// The same for schemas of simulations.
[[nodiscard]] absl::StatusOr<const FactSchema*> FindSimulationSchema(std::string_view id);

// Same as Finding.Kind in kernel.proto.
enum class FindingKind {
  kSharedRace,
  kSharedOutOfBounds,
  kSharedUninitialised,
  kLocalOutOfBounds,
  kLocalUninitialised,
  kGlobalOutOfBounds,
  kGlobalUninitialised,
  kMisaligned,
  kWrongMask,
  kMissedBarrier,
  kWrongValue,
  kNotWritten,
  kGlobalRace,
};
inline constexpr size_t kFindingKinds = 13;
// Name, such as "shared_race", and a short explanation.
std::string_view FindingName(FindingKind kind);
std::string_view FindingMeaning(FindingKind kind);
// Whether the kind is about outputs, and so about the program as a whole.
bool IsWrongOutput(FindingKind kind);

// A fault of a kernel found by simulating it.
struct Finding {
  FindingKind kind = FindingKind::kSharedRace;
  int ptx_line = 0;     // 0: no single line
  int source_line = 0;  // 0: unknown
  std::string detail;
  int64_t count = 0;

  friend bool operator==(const Finding&, const Finding&) = default;
};

struct LaunchSimulation {
  std::string kernel;
  std::vector<double> values;  // in the order of the schema; empty if not supported
  std::string not_covered;     // what the simulator does not support; empty: nothing
  std::vector<Finding> findings = {};
  std::string not_checked = {};  // what was not checked for faults; empty: nothing
};

// Result of simulating the launches at one shape.
struct ShapeSimulation {
  std::string schema;
  std::string gpu;  // GPU model for which times are estimated, e.g. "NVIDIA H200"
  std::vector<LaunchSimulation> launches;
  std::string findings_schema = {};  // empty: the launches were not checked for faults
  std::string not_compared = {};     // why outputs were not compared with the oracle's
};

struct CompileFacts {
  std::string schema;
  std::vector<double> values;
  // One per bench shape, in order. Empty: nothing was simulated.
  std::vector<ShapeSimulation> simulations = {};
};

// Whether the simulated outputs were compared with the oracle's at one shape at least, and all of
// them agreed.
bool OutputsAgreed(const ShapeSimulation& simulation);

// INVALID_ARGUMENT: unknown schema, wrong length, non-finite value, too many simulations, or
// findings that are too many, too long or have an unknown schema.
[[nodiscard]] absl::Status ValidateFacts(const CompileFacts& facts);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_FACTS_H_
