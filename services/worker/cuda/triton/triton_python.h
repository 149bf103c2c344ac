#ifndef KERNELCAST_SERVICES_WORKER_CUDA_TRITON_TRITON_PYTHON_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_TRITON_TRITON_PYTHON_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::worker {

// A Python interpreter that has Triton, and what it reads when it compiles a kernel.
struct TritonPython {
  std::string program;  // absolute path, without links
  std::string triton_version;
  std::string python_version;
  // Packages, modules and their metadata, outside the standard library.
  std::vector<std::string> packages;
  // Files and folders: the standard library, Triton, and shared libraries.
  std::vector<std::string> read_only;
};

// Asks the interpreter, which is trusted. NOT_FOUND: no such program. FAILED_PRECONDITION: it has
// no Triton, or is too old; the message says what it printed.
[[nodiscard]] absl::StatusOr<TritonPython> ProbeTritonPython(const std::string& python);

// The programs that ProbeTritonPython and TritonServer run in the interpreter.
extern const char* const kTritonProbe;
extern const char* const kTritonCompileServer;

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_TRITON_TRITON_PYTHON_H_
