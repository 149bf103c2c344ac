#ifndef KERNELCAST_SERVICES_WORKER_CORE_INPUTS_H_
#define KERNELCAST_SERVICES_WORKER_CORE_INPUTS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/secret_random.h"
#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/core/options.h"
#include "services/worker/core/random.h"
#include "services/worker/core/tensor.h"

namespace kernelcast::worker {

// One way to call a problem's entry: axis values and the distribution of the inputs.
struct CaseSpec {
  AxisValues axes = {};
  // Absent: the declared distributions.
  std::optional<Adversarial> adversarial = std::nullopt;
  bool held_out = false;
  // Floating-point inputs are multiplied by it, except those that hold whole numbers only; see
  // InputFactor.
  double factor = 1;

  // Returns "declared", "large", "held_out", "held_out large", ...
  std::string distribution() const;
};

// Writes the values of an input. The same generator state gives the same values. An adversarial
// case changes only the tensors that list it; the others keep their declared distribution.
// INVALID_ARGUMENT: an expression of the distribution has no value, or the dtype cannot be
// generated.
[[nodiscard]] absl::Status FillInput(const TensorSpec& tensor, const TensorLayout& layout,
                                     const CaseSpec& spec, Random& random,
                                     std::span<std::byte> data);

// Whether the elements of an input are drawn independently of each other, so that elements of two
// draws can be mixed: the result is a draw like any other. Elements of a file may belong together.
bool ElementsAreIndependent(const TensorSpec& tensor);
// Whether altered inputs differ from the draw that they come from. Never those of a Python task,
// whose code may make anything true of all elements together.
bool CanAlter(const Problem& problem);
// Replaces a few values of each input with independent elements, at random positions, by the values
// of `other` at the same positions. `other` holds the same number of tensors of the same sizes.
void AlterInputs(const std::vector<TensorSpec>& tensors, const std::vector<std::string>& other,
                 Random& random, std::vector<std::string>& inputs);

// A factor between 0.5 and 1 for one draw of a problem whose inputs are constants and files only,
// so that its draws differ where that keeps masks, counts and positions. 1 for other problems.
double InputFactor(const Problem& problem, SecretRandom& random);
// Notes on results that follow from the declared inputs of the bench shapes.
std::vector<MeasurementNote> InputNotes(const Problem& problem, const ProblemTarget& target);

// Returns the correctness cases of one sitting: every check shape with the declared distribution
// and with each adversarial one, held-out shapes drawn from the axes' ranges, and every bench shape
// once. Check shapes are repeated with new seeds until there are `min_seeds` cases. `target` is one
// of the problem's targets and gives the shapes.
//
// Held-out sizes are of six kinds, where an axis has such values: odd, even, a multiple of a power
// of two, a power of two, one less and one more. Each axis gets every kind equally often, in its
// own random order.
std::vector<CaseSpec> CorrectnessCases(const Problem& problem, const ProblemTarget& target,
                                       const MeasureOptions& options, SecretRandom& random);

// Shapes of all inputs or outputs for the given axis values.
[[nodiscard]] absl::StatusOr<std::vector<TensorLayout>> Layouts(
    const std::vector<TensorSpec>& tensors, const AxisValues& axes);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_INPUTS_H_
