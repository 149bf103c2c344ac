#include "services/worker/python/task_launches.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status.h"
#include "common/domain/expression.h"
#include "common/domain/launch_argument.h"
#include "common/domain/text.h"

namespace kernelcast::worker {
namespace {

using Tensor = TaskLaunches::Tensor;

// A tensor of one case.
struct Found {
  std::string name;
  Tensor::Kind kind;
  size_t index;
  const TensorLayout* layout;
  std::vector<int64_t> strides;
};

std::string WeightName(const std::string& name) {
  return absl::StrCat("model_", absl::StrReplaceAll(name, {{".", "_"}}));
}

std::vector<Found> TensorsOf(const TaskCase& one, const std::vector<TaskWeight>& weights) {
  std::vector<Found> found;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    found.push_back({one.input_names[i], Tensor::Kind::kInput, i, &one.inputs[i], one.strides[i]});
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    found.push_back(
        {WeightName(weights[i].name), Tensor::Kind::kWeight, i, &weights[i].layout, {}});
  }
  for (size_t i = 0; i < one.outputs.size(); ++i) {
    found.push_back({one.output_names[i], Tensor::Kind::kOutput, i, &one.outputs[i], {}});
  }
  std::set<std::string> names;
  std::erase_if(found, [&](const Found& tensor) {
    return !IsIdentifier(tensor.name) || tensor.name == kWorkspaceArgument ||
           !names.insert(tensor.name).second;
  });
  return found;
}

std::vector<int64_t> RowMajor(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * shape[i - 1];
  return strides;
}

void AddSizes(const Found& tensor, bool with_strides, AxisValues& sizes) {
  const std::vector<int64_t>& shape = tensor.layout->shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    sizes.emplace(absl::StrCat(tensor.name, "_shape_", i), shape[i]);
  }
  sizes.emplace(absl::StrCat(tensor.name, "_numel"), tensor.layout->elements());
  if (!with_strides) return;
  const std::vector<int64_t> strides = tensor.strides.empty() ? RowMajor(shape) : tensor.strides;
  for (size_t i = 0; i < strides.size(); ++i) {
    sizes.emplace(absl::StrCat(tensor.name, "_stride_", i), strides[i]);
  }
}

absl::StatusOr<TensorSpec> LaunchSpecOf(const Found& tensor, bool same_rank,
                                        const std::vector<std::string>& names) {
  TensorSpec spec;
  spec.name = tensor.name;
  spec.dtype = tensor.layout->dtype;
  // Nothing is known of the values. An index of 0 is valid everywhere.
  if (!IsFloat(spec.dtype)) spec.init = Constant{0};
  std::vector<std::string> sizes;
  for (size_t i = 0; same_rank && i < tensor.layout->shape.size(); ++i) {
    sizes.push_back(absl::StrCat(tensor.name, "_shape_", i));
  }
  if (!same_rank) sizes.push_back(absl::StrCat(tensor.name, "_numel"));
  for (const std::string& size : sizes) {
    KC_ASSIGN_OR_RETURN(spec.shape.emplace_back(), Expression::Parse(size, names));
  }
  return spec;
}

// The axes: what all cases have. Cases that a task does not list have sizes from 1 to the largest.
std::vector<Axis> AxesOf(const std::vector<AxisValues>& sizes, bool held_out) {
  std::vector<Axis> axes;
  for (const auto& [name, first] : sizes.front()) {
    Axis axis;
    axis.name = name;
    axis.held_out_low = 1;
    axis.held_out_high = 0;
    int64_t largest = first;
    bool varies = false;
    for (const AxisValues& of_case : sizes) {
      varies = varies || of_case.at(name) != first;
      largest = std::max(largest, of_case.at(name));
    }
    if (held_out && varies) axis.held_out_high = largest;
    axes.push_back(std::move(axis));
  }
  return axes;
}

}  // namespace

absl::StatusOr<TaskLaunches> MakeTaskLaunches(const Problem& problem,
                                              const std::vector<TaskCase>& cases,
                                              const std::vector<TaskWeight>& weights) {
  std::vector<std::vector<Found>> found;
  std::set<std::string> tensor_names;
  std::set<std::string> strided;
  for (const TaskCase& one : cases) {
    for (const Found& tensor : found.emplace_back(TensorsOf(one, weights))) {
      tensor_names.insert(tensor.name);
      if (!tensor.strides.empty()) strided.insert(tensor.name);
    }
  }
  TaskLaunches launches;
  for (size_t i = 0; i < cases.size(); ++i) {
    // The first of equal names counts.
    AxisValues sizes = cases[i].axes;
    sizes.insert(cases[i].scalars.begin(), cases[i].scalars.end());
    for (const Found& tensor : found[i]) AddSizes(tensor, strided.contains(tensor.name), sizes);
    std::erase_if(sizes, [&](const auto& size) {
      return tensor_names.contains(size.first) || !IsIdentifier(size.first) ||
             size.first == kWorkspaceArgument || Expression::IsReservedName(size.first);
    });
    launches.sizes.push_back(std::move(sizes));
  }
  const auto everywhere = [&](const std::string& name) {
    return std::ranges::all_of(launches.sizes,
                               [&](const AxisValues& of_case) { return of_case.contains(name); });
  };
  std::set<std::string> common;
  for (const auto& [name, value] : launches.sizes.front()) {
    if (everywhere(name)) common.insert(name);
  }
  for (AxisValues& of_case : launches.sizes) {
    std::erase_if(of_case, [&](const auto& size) { return !common.contains(size.first); });
  }

  Problem& made = launches.problem;
  made.problem_id = problem.problem_id;
  made.name = problem.name;
  made.title = problem.title;
  made.task = problem.task;
  const bool held_out =
      std::ranges::any_of(cases, [](const TaskCase& one) { return one.held_out; });
  made.axes = AxesOf(launches.sizes, held_out);
  const std::vector<std::string> names(common.begin(), common.end());
  for (const Found& tensor : found.front()) {
    Tensor placed{tensor.kind, {}};
    bool same_rank = true;
    for (const std::vector<Found>& in_case : found) {
      const auto at = std::ranges::find_if(in_case, [&](const Found& other) {
        return other.name == tensor.name && other.kind == tensor.kind &&
               other.layout->dtype == tensor.layout->dtype;
      });
      if (at == in_case.end()) break;
      placed.index.push_back(at->index);
      same_rank = same_rank && at->layout->shape.size() == tensor.layout->shape.size();
    }
    if (placed.index.size() < cases.size()) continue;
    KC_ASSIGN_OR_RETURN(TensorSpec spec, LaunchSpecOf(tensor, same_rank, names));
    (tensor.kind == Tensor::Kind::kOutput ? made.outputs : made.inputs).push_back(std::move(spec));
    launches.tensors.push_back(std::move(placed));
  }

  ProblemTarget& target = made.targets[std::string(kCudaTargetName)];
  target.kind = CandidateKind::kPython;
  const auto sizes_at = [&](const std::vector<AxisValues>& shapes) {
    std::vector<AxisValues> sizes;
    for (const AxisValues& shape : shapes) {
      const auto at = std::ranges::find(cases, shape, &TaskCase::axes);
      if (at != cases.end()) {
        sizes.push_back(launches.sizes[static_cast<size_t>(at - cases.begin())]);
      }
    }
    return sizes;
  };
  const ProblemTarget& given = problem.targets.at(std::string(kCudaTargetName));
  target.check_shapes = sizes_at(given.check_shapes);
  target.bench_shapes = sizes_at(given.bench_shapes);
  return launches;
}

}  // namespace kernelcast::worker
