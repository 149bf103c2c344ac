#include "services/forecaster/core/problem_context.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/domain/launch_geometry.h"

namespace kernelcast::forecaster {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

float Log2OrMissing(double value) {
  return value > 0 && std::isfinite(value) ? static_cast<float>(std::log2(value)) : kMissing;
}

double Elements(const TensorSpec& tensor, const AxisValues& axes) {
  const absl::StatusOr<std::vector<int64_t>> shape = TensorShape(tensor, axes);
  if (!shape.ok()) return 0;
  double elements = 1;
  for (const int64_t size : *shape) elements *= static_cast<double>(size);
  return elements;
}

double Elements(const std::vector<TensorSpec>& tensors, const AxisValues& axes) {
  double total = 0;
  for (const TensorSpec& tensor : tensors) total += Elements(tensor, axes);
  return total;
}

std::vector<double> OutputBytes(const Problem& problem, const ProblemTarget& target) {
  std::vector<double> bytes;
  for (const AxisValues& shape : target.bench_shapes) {
    double sum = 0;
    for (const TensorSpec& output : problem.outputs) {
      sum += Elements(output, shape) * static_cast<double>(SizeBytes(output.dtype));
    }
    bytes.push_back(sum);
  }
  return bytes;
}

double Evaluate(const std::optional<Expression>& expression, const AxisValues& axes) {
  if (!expression.has_value()) return 0;
  Variables variables;
  for (const auto& [name, value] : axes) variables.emplace(name, static_cast<double>(value));
  const absl::StatusOr<double> value = expression->Evaluate(variables);
  return value.ok() ? *value : 0;
}

AxisValues LargestBenchShape(const Problem& problem, const ProblemTarget& target) {
  AxisValues largest;
  double largest_elements = -1;
  for (const AxisValues& shape : target.bench_shapes) {
    const double elements = Elements(problem.inputs, shape) + Elements(problem.outputs, shape);
    if (elements > largest_elements) {
      largest_elements = elements;
      largest = shape;
    }
  }
  return largest;
}

std::vector<float> WorkFeatures(const Problem& problem, const AxisValues& largest) {
  const double flops = Evaluate(problem.flops, largest);
  const double bytes = Evaluate(problem.bytes, largest);
  double high = 0;
  double low = 0;
  for (const auto& [name, value] : largest) {
    const double size = static_cast<double>(value);
    high = std::max(high, size);
    low = low == 0 ? size : std::min(low, size);
  }
  return {Log2OrMissing(flops),
          Log2OrMissing(bytes),
          bytes > 0 ? Log2OrMissing(flops / bytes) : kMissing,
          Log2OrMissing(Elements(problem.inputs, largest)),
          Log2OrMissing(Elements(problem.outputs, largest)),
          Log2OrMissing(high),
          Log2OrMissing(low),
          static_cast<float>(largest.size())};
}

}  // namespace

ProblemContext::ProblemContext(Problem parsed) : problem(std::move(parsed)) {
  for (const auto& [target, details] : problem.targets) {
    const AxisValues& largest =
        largest_shapes_.emplace(target, LargestBenchShape(problem, details)).first->second;
    work_features.emplace(target, WorkFeatures(problem, largest));
    output_bytes.emplace(target, OutputBytes(problem, details));
    encoders.emplace(target,
                     details.space.has_value() ? TunableEncoder(*details.space) : TunableEncoder());
    const absl::StatusOr<Candidate> reference = ReferenceCandidate(problem, target);
    if (!reference.ok()) continue;
    reference_ids.emplace(target, reference->candidate_id);
    reference_launch_features.emplace(target, LaunchFeatures(*reference));
  }
}

const TunableEncoder& ProblemContext::EncoderFor(std::string_view target) const {
  static const TunableEncoder& kEmpty = *new TunableEncoder();
  const auto found = encoders.find(target);
  return found == encoders.end() ? kEmpty : found->second;
}

std::vector<float> ProblemContext::LaunchFeatures(const Candidate& candidate) const {
  std::vector<float> features(std::size(kLaunchFeatureNames), kMissing);
  const auto shape = largest_shapes_.find(candidate.target);
  if (candidate.launches.empty() || shape == largest_shapes_.end()) return features;
  const Variables variables = LaunchVariables(candidate.tunables, shape->second);
  std::vector<LaunchGeometry> launches;
  double blocks = 0;
  double threads = 0;
  for (const Launch& launch : candidate.launches) {
    absl::StatusOr<LaunchGeometry> geometry = EvaluateGeometry(launch, variables, "launch");
    const absl::StatusOr<bool> launched = IsLaunched(launch, variables, "launch");
    if (!geometry.ok() || !launched.ok()) return features;
    if (!*launched) continue;
    if (KindInfoOf(candidate.kind).launch_form == LaunchForm::kTriton) {
      const int32_t warps = launch.num_warps == 0 ? kDefaultNumWarps : launch.num_warps;
      geometry->block[0] = static_cast<uint32_t>(32 * warps);
    }
    const auto launch_blocks = static_cast<double>(geometry->grid_blocks());
    blocks += launch_blocks;
    threads += launch_blocks * static_cast<double>(geometry->block_threads());
    launches.push_back(*geometry);
  }
  const absl::StatusOr<int64_t> workspace =
      EvaluateWorkspaceBytes(candidate.workspace_bytes, variables);
  if (!workspace.ok()) return features;
  const auto log2 = [](double value) { return static_cast<float>(std::log2(1 + value)); };
  const LaunchGeometry& first = launches.front();
  return {static_cast<float>(launches.size()),
          log2(blocks),
          log2(threads),
          log2(static_cast<double>(first.block_threads())),
          log2(static_cast<double>(first.grid_blocks())),
          log2(first.shared_memory_bytes),
          log2(static_cast<double>(*workspace))};
}

}  // namespace kernelcast::forecaster
