#include "services/worker/cuda/language/pytorch/recorded_program.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/domain/text.h"
#include "services/worker/virtual_gpu/estimate/estimate.h"
#include "services/worker/virtual_gpu/estimate/launch_facts.h"

namespace kernelcast::worker {
namespace {

using virtual_gpu::KnownAmounts;
using virtual_gpu::MatrixType;
using virtual_gpu::Resource;
using Unit = RecordedOperation::Unit;

absl::StatusOr<TensorSpec> InputOf(const RecordedTensor& recorded, size_t index) {
  TensorSpec input;
  input.name = RecordedTensorName(index);
  input.dtype = recorded.dtype;
  KC_ASSIGN_OR_RETURN(input.shape.emplace_back(),
                      Expression::Parse(absl::StrCat(recorded.elements), {}));
  if (IsFloat(recorded.dtype)) return input;
  if (!recorded.range) {
    // An index of 0 is valid everywhere.
    input.init = Constant{0};
    return input;
  }
  Integers integers;
  KC_ASSIGN_OR_RETURN(integers.low, Expression::Parse(absl::StrCat(recorded.range->first), {}));
  KC_ASSIGN_OR_RETURN(integers.high, Expression::Parse(absl::StrCat(recorded.range->second), {}));
  input.init = std::move(integers);
  return input;
}

// Covers what a compilation depends on besides the candidate.
std::string IdOf(const Recording& recording) {
  ContentHasher hasher;
  hasher.Add("recorded problem 1");
  for (const RecordedTensor& tensor : recording.tensors) {
    hasher.Add(std::string(Name(tensor.dtype))).Add(static_cast<long long>(tensor.elements));
  }
  return absl::StrCat("p_", hasher.Hex128());
}

KnownAmounts AmountsOf(const RecordedOperation& operation) {
  KnownAmounts amounts;
  amounts.bytes = operation.bytes;
  amounts.operations = operation.operations;
  amounts.count = static_cast<double>(operation.count);
  amounts.unit = Resource::kTensor;
  switch (operation.unit) {
    case Unit::kFloat32: amounts.unit = Resource::kFloat32; break;
    case Unit::kFloat64: amounts.unit = Resource::kFloat64; break;
    case Unit::kHalf: amounts.matrix = MatrixType::kHalf; break;
    case Unit::kTf32: amounts.matrix = MatrixType::kTf32; break;
    case Unit::kFloat8: amounts.matrix = MatrixType::kFloat8; break;
    case Unit::kMatrixFloat64: amounts.matrix = MatrixType::kFloat64; break;
  }
  return amounts;
}

// Index among the facts of a launch.
size_t FactIndex(std::string_view name) {
  const auto& names = (*FindSimulationSchema(kCudaSimulationSchemaId))->names;
  return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
}

}  // namespace

absl::StatusOr<RecordedProgram> MakeRecordedProgram(const Recording& recording) {
  RecordedProgram program;
  program.problem.problem_id = IdOf(recording);
  program.problem.name = "recorded";
  for (size_t i = 0; i < recording.tensors.size(); ++i) {
    KC_ASSIGN_OR_RETURN(program.problem.inputs.emplace_back(), InputOf(recording.tensors[i], i));
  }
  ProblemTarget& target = program.problem.targets[std::string(kCudaTargetName)];
  target.kind = CandidateKind::kDeviceTriton;
  target.bench_shapes.emplace_back();
  Candidate& candidate = program.candidate;
  candidate.problem_id = program.problem.problem_id;
  candidate.target = std::string(kCudaTargetName);
  candidate.kind = CandidateKind::kDeviceTriton;
  candidate.source = recording.source;
  candidate.launches = recording.launches;
  KC_RETURN_IF_ERROR(ValidateCandidate(candidate));
  candidate.candidate_id = CandidateId(candidate);
  return program;
}

LaunchSimulation SimulateOperations(std::span<const RecordedOperation> operations,
                                    const virtual_gpu::GpuModel& gpu) {
  std::vector<KnownAmounts> amounts;
  virtual_gpu::LaunchCounts counts;
  for (const RecordedOperation& operation : operations) {
    const KnownAmounts& known = amounts.emplace_back(AmountsOf(operation));
    const double all = known.operations * known.count;
    if (known.unit == Resource::kTensor) {
      counts.counters.matrix_flops[static_cast<size_t>(known.matrix)] += all;
    } else {
      (known.unit == Resource::kFloat64 ? counts.counters.flops64 : counts.counters.flops32) += all;
    }
  }
  LaunchSimulation simulation;
  simulation.kernel = std::string(kOperationsName);
  simulation.values = virtual_gpu::LaunchFacts(counts, virtual_gpu::EstimateAmounts(gpu, amounts));
  return simulation;
}

ShapeSimulation EmptySimulation(const virtual_gpu::GpuModel& gpu) {
  ShapeSimulation simulation;
  simulation.schema = std::string(kCudaSimulationSchemaId);
  simulation.gpu = std::string(gpu.name);
  return simulation;
}

ShapeSimulation NotSimulated(const virtual_gpu::GpuModel& gpu, std::string reason) {
  ShapeSimulation simulation = EmptySimulation(gpu);
  simulation.launches.push_back({std::string(kWholeCandidate), {}, std::move(reason)});
  return simulation;
}

double TouchedBytes(const ShapeSimulation& simulation) {
  const size_t index = FactIndex("unique_bytes");
  double bytes = 0;
  for (const LaunchSimulation& launch : simulation.launches) {
    if (index < launch.values.size()) bytes += launch.values[index];
  }
  return bytes;
}

std::string DescribeShares(const ShapeSimulation& simulation,
                           std::span<const RecordedOperation> operations) {
  const size_t index = FactIndex("estimated_ns");
  double all_ns = 0;
  double own_ns = 0;
  for (const LaunchSimulation& launch : simulation.launches) {
    if (launch.values.size() <= index) return "";
    all_ns += launch.values[index];
    if (launch.kernel == kOperationsName) own_ns += launch.values[index];
  }
  if (!(all_ns > 0)) return "";
  int64_t count = 0;
  for (const RecordedOperation& operation : operations) count += operation.count;
  return absl::StrCat("estimated: ", NumberText(all_ns / 1000, 4), " us; PyTorch's operations (",
                      count, "): ", std::lround(100 * own_ns / all_ns), "%");
}

}  // namespace kernelcast::worker
