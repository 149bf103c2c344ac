#ifndef KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_PROGRAM_TABLE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_PROGRAM_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/cuda/runner/protocol.h"

namespace kernelcast::worker::cuda_runner {

struct Argument {
  uint32_t arena = kLiteral;
  uint32_t bytes = 8;
  uint64_t value = 0;
};

struct ProgramLaunch {
  uint32_t kernel = 0;
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t cluster[3] = {0, 0, 0};
  uint32_t shared_memory_bytes = 0;
  std::vector<Argument> arguments;
};

// One call of a candidate or reference: its launches in order, or the tensors for the entry of a
// shared object.
struct Program {
  std::vector<ProgramLaunch> launches = {};
  std::vector<TensorRecord> inputs = {};
  std::vector<TensorRecord> outputs = {};
  uint32_t task_case = 0;  // of a Python task
};

// Returns the content of a kPrograms file.
std::vector<std::byte> WritePrograms(std::span<const Program> programs);

// INVALID_ARGUMENT: not the output of WritePrograms for `count` programs, or beyond a limit of the
// protocol.
[[nodiscard]] absl::StatusOr<std::vector<Program>> ReadPrograms(std::span<const std::byte> file,
                                                                uint32_t count);

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_PROGRAM_TABLE_H_
