#ifndef KERNELCAST_SERVICES_WORKER_PYTHON_TASK_LAUNCHES_H_
#define KERNELCAST_SERVICES_WORKER_PYTHON_TASK_LAUNCHES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"
#include "services/worker/core/tensor.h"

namespace kernelcast::worker {

// One way to call a task, as its code described it.
struct TaskCase {
  AxisValues axes;
  bool held_out = false;  // a case that the task does not list
  std::vector<TensorLayout> inputs;
  std::vector<std::string> input_names;
  // By input: its strides in elements; empty: row-major.
  std::vector<std::vector<int64_t>> strides;
  std::vector<size_t> written;  // the inputs that the reference changes
  AxisValues scalars;           // arguments that are integers or bools
  std::vector<TensorLayout> outputs;
  std::vector<std::string> output_names;
  std::vector<Tolerance> tolerances;  // by output, with own_error where the format has no checker
  // By output: what rounding changes, relative to the norm; nothing where that is not known.
  std::vector<std::optional<double>> noise;
  double bytes = 0;         // the least that a right kernel must move; 0: nothing is known
  double flops = 0;         // what the reference needs; 0: nothing is known
  std::string description;  // JSON: {"case", "inputs", "outputs", "written", "single", ...}
};

// The places of weights are multiples of this many bytes.
inline constexpr uint64_t kWeightAlignment = 512;

// A parameter or a buffer of a task's reference.
struct TaskWeight {
  std::string name;  // PyTorch's: "linear.weight"
  std::string dtype;
  TensorLayout layout;
  uint64_t offset = 0;  // among all weights
};

// What the launches of device code may name in a task: the tensors that all cases have with the
// same dtype, and the integers that all cases have. Names are PyTorch's expressions, with
// underscores for dots and brackets:
//
//   x, data_0, data_q        an input: x, data[0], data["q"] or data.q
//   model_linear_weight      a parameter or a buffer: model.linear.weight
//   output0                  an output, or the name that the task gives it
//   x_shape_0, x_numel       sizes of any of them: x.shape[0], x.numel()
//   x_stride_0               x.stride(0), of inputs that are not row-major in some case
//   n                        an argument that is an integer or a bool, and the axes of the format
struct TaskLaunches {
  // A problem whose inputs are the task's inputs and then its weights, and whose axes are the
  // integers. Its shapes are those of the cases that the task lists. An axis has a range only if
  // secret cases may have other values; otherwise its low end is above its high end.
  Problem problem;
  // By case of the task: the integers.
  std::vector<AxisValues> sizes;

  // A tensor of the problem.
  struct Tensor {
    enum class Kind { kInput, kWeight, kOutput } kind = Kind::kInput;
    // By case: its index among the inputs or the outputs. Of a weight: one index for all cases.
    std::vector<size_t> index;
  };
  std::vector<Tensor> tensors;  // the problem's inputs and then its outputs
};

// INVALID_ARGUMENT: an expression cannot be made, which does not happen for described cases.
[[nodiscard]] absl::StatusOr<TaskLaunches> MakeTaskLaunches(const Problem& problem,
                                                            const std::vector<TaskCase>& cases,
                                                            const std::vector<TaskWeight>& weights);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_PYTHON_TASK_LAUNCHES_H_
