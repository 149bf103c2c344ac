#ifndef KERNELCAST_SERVICES_WORKER_CUDA_PYTHON_SANDBOX_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_PYTHON_SANDBOX_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kernelcast::worker::cuda_runner {

// Writable folder of a Python candidate. It is in memory, and ends with the process.
inline constexpr const char* kScratchFolder = "/scratch";

struct PythonSandbox {
  std::vector<std::string> read_only;  // what it may read and run
  bool own_files = false;              // sandbox::LeaveFiles was called
  int socket = -1;                     // the one socket for messages
  uint32_t uid = 0;                    // user, if this process is root; 0: stay root
  int64_t used_bytes = 0;              // private memory before the program was loaded
  int64_t max_memory_bytes = 0;        // beyond that; 0: unlimited
};

// Restricts this process and the programs that it starts, before any code of a candidate runs. The
// candidate may read `read_only`, write to the scratch folder, and run compilers; it starts no
// threads and has no network. Permanent. What this machine does not permit is left out: the device
// runner uses the same protections, and reports those.
void EnterPythonSandbox(const PythonSandbox& options);

// From now on no programs are started. Permanent.
bool DenyPrograms();

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_PYTHON_SANDBOX_H_
