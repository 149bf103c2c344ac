#ifndef KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_RECORDED_PROGRAM_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_RECORDED_PROGRAM_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/facts.h"
#include "common/domain/problem.h"
#include "services/worker/python/recording.h"
#include "services/worker/virtual_gpu/estimate/gpu_model.h"

namespace kernelcast::worker {

// The launches of a recorded call as a device_triton candidate, of a problem whose inputs are the
// memory that the kernels get. The problem has one shape, without axes.
struct RecordedProgram {
  Problem problem;
  Candidate candidate;
};

// Needs at least one launch. INVALID_ARGUMENT: the launches are not those of a valid candidate.
[[nodiscard]] absl::StatusOr<RecordedProgram> MakeRecordedProgram(const Recording& recording);

// Name of the entry for PyTorch's operations among the launches of a simulation.
inline constexpr std::string_view kOperationsName = "PyTorch operations";

// One entry for all operations of PyTorch, at the GPU's peaks.
LaunchSimulation SimulateOperations(std::span<const RecordedOperation> operations,
                                    const virtual_gpu::GpuModel& gpu);

// Without launches.
ShapeSimulation EmptySimulation(const virtual_gpu::GpuModel& gpu);

// The one simulation of a candidate of which nothing is known, for the reason.
ShapeSimulation NotSimulated(const virtual_gpu::GpuModel& gpu, std::string reason);

// Bytes that the launches touch, each byte counted once per launch. Of operations of PyTorch: that
// they read and write. Launches that are not covered touch nothing.
double TouchedBytes(const ShapeSimulation& simulation);

// Says which share of the estimated time is PyTorch's, in one line. "": not all is estimated.
std::string DescribeShares(const ShapeSimulation& simulation,
                           std::span<const RecordedOperation> operations);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_LANGUAGE_PYTORCH_RECORDED_PROGRAM_H_
