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

// NOT_FOUND, listing the known ids.
[[nodiscard]] absl::StatusOr<const FactSchema*> FindFactSchema(std::string_view id);
std::span<const FactSchema> AllFactSchemas();

struct CompileFacts {
  std::string schema;
  std::vector<double> values;
};

// INVALID_ARGUMENT: unknown schema, wrong length, value not finite.
[[nodiscard]] absl::Status ValidateFacts(const CompileFacts& facts);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_FACTS_H_
