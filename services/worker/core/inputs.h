#ifndef KERNELCAST_SERVICES_WORKER_CORE_INPUTS_H_
#define KERNELCAST_SERVICES_WORKER_CORE_INPUTS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/core/options.h"
#include "services/worker/core/random.h"
#include "services/worker/core/tensor.h"

namespace kernelcast::worker {

// One way of calling a problem's entry: sizes, and which values the inputs have.
struct CaseSpec {
  AxisValues axes = {};
  // Absent: the declared distributions.
  std::optional<Adversarial> adversarial = std::nullopt;
  bool held_out = false;

  // "declared", "large", "held_out", "held_out large", ...
  std::string distribution() const;
};

// Writes the values of an input: deterministic in the generator's state. Adversarial cases change
// the declared distribution of the tensors that list them and leave the others as declared.
// INVALID_ARGUMENT: an expression of the distribution has no value, or the dtype cannot be
// generated.
[[nodiscard]] absl::Status FillInput(const TensorSpec& tensor, const TensorLayout& layout,
                                     const CaseSpec& spec, Random& random,
                                     std::span<std::byte> data);

// The correctness cases of one sitting: every check shape with the declared and each adversarial
// distribution, held-out shapes drawn from the axes' ranges (odd where any value is legal), every
// bench shape once; more draws of the check shapes until there are `min_seeds` cases. The shapes
// are those of `target`, which is one of the problem's.
std::vector<CaseSpec> CorrectnessCases(const Problem& problem, const ProblemTarget& target,
                                       const MeasureOptions& options, Random& random);

// Sizes of all inputs or outputs for given axes.
[[nodiscard]] absl::StatusOr<std::vector<TensorLayout>> Layouts(
    const std::vector<TensorSpec>& tensors, const AxisValues& axes);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_INPUTS_H_
