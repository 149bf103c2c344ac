#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_TRITON_PLAN_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_TRITON_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"

namespace kernelcast::worker {

// The compiler's assumptions about one parameter that is not constexpr.
struct TritonParameter {
  std::string type;              // as Triton writes it: "*fp32", "i32"
  bool divisible_by_16 = false;  // the value or the address
  bool equal_to_1 = false;       // the value; the parameter then disappears

  friend bool operator==(const TritonParameter&, const TritonParameter&) = default;
};

struct TritonConstant {
  enum class Kind { kInteger, kReal, kBoolean, kNone, kType, kText };
  std::string name;
  Kind kind = Kind::kInteger;
  std::string value;

  friend bool operator==(const TritonConstant&, const TritonConstant&) = default;
};

// One compilation of a kernel.
struct TritonVariant {
  std::string kernel;
  int32_t num_warps = 0;   // 0: Triton's default
  int32_t num_stages = 0;  // 0: Triton's default
  std::vector<TritonParameter> parameters;
  std::vector<TritonConstant> constants;

  friend bool operator==(const TritonVariant&, const TritonVariant&) = default;
};

// A launch of one variant.
struct TritonLaunch {
  size_t variant = 0;  // index into TritonPlan::variants
  std::vector<std::string> grid;
  std::vector<std::string> arguments;  // of the parameters that remain, with their types
  std::string when;                    // at which shapes; "": at all
};

struct TritonPlan {
  std::vector<TritonVariant> variants;  // each is different
  std::vector<TritonLaunch> launches;   // at any shape, one for each launch that takes place
};

inline constexpr size_t kMaxTritonVariants = 32;

// Decides which variants of a candidate's kernels to compile, as Triton's own launcher would at run
// time: constants, and whether each integer is a multiple of 16. Facts that hold at all shapes are
// in every variant. For those that hold at bench shapes only, there is one variant that assumes
// them and one that does not, and `when` selects. An integer equals 1 only if it does at all
// shapes. The judge places tensors at multiples of 512 bytes. Pure.
//
// INVALID_ARGUMENT names the field: an argument or constant that is not valid, a type that Triton
// kernels cannot take, or too many variants.
[[nodiscard]] absl::StatusOr<TritonPlan> PlanTriton(const Problem& problem,
                                                    const ProblemTarget& target,
                                                    const Candidate& candidate);

// A compiled variant.
struct TritonKernelFacts {
  std::string entry;  // name in the module
  int64_t block_threads = 0;
  int64_t shared_bytes = 0;
  int64_t parameters = 0;
};

// The launches as those of a device CUDA candidate. `compiled` has one entry per variant. Triton
// appends parameters for scratch memory, which are null. INVALID_ARGUMENT: a kernel has other
// parameters than the plan says.
[[nodiscard]] absl::StatusOr<std::vector<Launch>> ResolveLaunches(
    const TritonPlan& plan, const std::vector<TritonKernelFacts>& compiled);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_TRITON_TRITON_PLAN_H_
