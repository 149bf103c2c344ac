#ifndef KERNELCAST_SERVICES_WORKER_PYTHON_RECORDING_H_
#define KERNELCAST_SERVICES_WORKER_PYTHON_RECORDING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/candidate.h"
#include "common/domain/problem.h"

namespace kernelcast::worker {

// Memory that kernels get by its address.
struct RecordedTensor {
  DataType dtype = DataType::kFloat32;
  int64_t elements = 0;  // from the address to the end of the allocation
  // Smallest and largest value, if they are known. Integers only.
  std::optional<std::pair<int64_t, int64_t>> range;
};

// Operations of PyTorch that are alike.
struct RecordedOperation {
  // The units that compute them.
  enum class Unit { kFloat32, kFloat64, kHalf, kTf32, kFloat8, kMatrixFloat64 };
  std::string name;
  Unit unit = Unit::kFloat32;
  double bytes = 0;       // of one, read and written
  double operations = 0;  // of one
  int64_t count = 0;
};

// The work of one call of a Python candidate on the device.
struct Recording {
  // Why it is not known what it does; the rest is then empty. One line of UTF-8.
  std::string not_recorded;
  // The launched kernels, as a source of a device_triton candidate. Empty: no launches.
  std::string source;
  std::vector<RecordedTensor> tensors;
  // Arguments are names of tensors (RecordedTensorName) and values with their types.
  std::vector<Launch> launches;
  std::vector<RecordedOperation> operations;
  // The bytes that the task's reference reads of its inputs and weights, and the bytes of its
  // outputs, each counted once. Bytes gathered by an index do not count. 0: not known.
  double needed_bytes = 0;
};

inline constexpr int64_t kMaxRecordingBytes = 4 << 20;
inline constexpr size_t kMaxRecordedTensors = 64;
inline constexpr size_t kMaxRecordedOperations = 1024;
inline constexpr size_t kMaxReasonBytes = 300;

// "t0", "t1", ...
std::string RecordedTensorName(size_t index);

// Reads the JSON that launch_recorder.py writes. The candidate's code ran in that process, so the
// text may be anything. Launches are not checked beyond their form; ValidateCandidate and the
// Triton compiler do that. INVALID_ARGUMENT: it has not the form, or exceeds a limit.
//
//   {"not_recorded": "..."}, or
//   {"source": "...",
//    "tensors": [{"dtype": "float32", "elements": 4096, "low": 0, "high": 9}, ...],
//    "launches": [{"kernel": "...", "grid": [16], "num_warps": 4, "num_stages": 0,
//                  "arguments": [{"tensor": 0}, {"int": 5}, {"float": 0.5}, ...],
//                  "constants": {"BLOCK": {"kind": "int", "value": 256}, ...}}, ...],
//    "operations": [{"name": "mm", "bytes": 4096, "operations": 65536, "unit": "float32",
//                    "count": 1}, ...],
//    "needed": 8192}
[[nodiscard]] absl::StatusOr<Recording> ReadRecording(const std::string& text);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_PYTHON_RECORDING_H_
