#ifndef KERNELCAST_TESTS_UNIT_SERVICES_WORKER_CUDA_COMPILER_COMPILED_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_WORKER_CUDA_COMPILER_COMPILED_H_

#include <string>
#include <vector>

namespace kernelcast::worker {

// NVRTC's output for a source without headers.
struct Compiled {
  std::string ptx;
  std::string cubin;
  std::string log;  // includes the output of ptxas -v
};

// Whether NVRTC is available for the headers used at build time; prints a message if it is not.
bool HaveNvrtc();

// Fails the test if the source does not compile.
Compiled CompileInProcess(const std::string& source, const std::string& architecture = "sm_90a",
                          const std::vector<std::string>& flags = {});

}  // namespace kernelcast::worker

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_WORKER_CUDA_COMPILER_COMPILED_H_
