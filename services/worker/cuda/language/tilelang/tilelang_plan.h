#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TILELANG_TILELANG_PLAN_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TILELANG_TILELANG_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"

namespace kernelcast::worker {

// One call of the function that makes the kernel.
struct TilelangVariant {
  AxisValues fixed;  // axes that are numbers; the others are symbols
  std::string when;  // at which shapes it is launched; "": at all

  friend bool operator==(const TilelangVariant&, const TilelangVariant&) = default;
};

// At most this many shapes have a kernel of their own.
inline constexpr size_t kMaxTilelangShapes = 8;

// Decides for which axes the kernel is made: as TileLang's users make it, for each bench shape, and
// once with symbols for all other shapes. An axis that has one value at all shapes is always a
// number. Pure.
std::vector<TilelangVariant> PlanTilelang(const Problem& problem, const ProblemTarget& target);

// The request for tilelang_program.py. `architecture` is 90 for sm_90a.
std::string EncodeTilelangRequest(const Problem& problem, const ProblemTarget& target,
                                  const std::vector<TilelangVariant>& variants,
                                  uint64_t architecture, std::string_view source);

// CUDA source, and its launches.
struct LoweredTilelang {
  std::string source;
  std::vector<Launch> launches;  // one for each variant
};

// Reads the answer, which is untrusted. INVALID_ARGUMENT: it does not fit the variants.
[[nodiscard]] absl::StatusOr<LoweredTilelang> DecodeTilelangReply(
    std::string_view fields, const std::vector<TilelangVariant>& variants);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TILELANG_TILELANG_PLAN_H_
