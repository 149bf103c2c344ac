#ifndef KERNELCAST_TESTS_UNIT_SERVICES_WORKER_CUDA_COMPILER_COMPILED_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_WORKER_CUDA_COMPILER_COMPILED_H_

#include <string>
#include <vector>

namespace kernelcast::worker {

// What NVRTC makes of a source without headers.
struct Compiled {
  std::string ptx;
  std::string cubin;
  std::string log;  // with what ptxas -v says
};

// Whether there is an NVRTC beside the headers that this was built with; says so where there is
// none.
bool HaveNvrtc();

// Fails the test where the source does not compile.
Compiled CompileInProcess(const std::string& source, const std::string& architecture = "sm_90a",
                          const std::vector<std::string>& flags = {});

}  // namespace kernelcast::worker

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_WORKER_CUDA_COMPILER_COMPILED_H_
