#ifndef KERNELCAST_TESTS_FAKES_CUDA_FAKE_NVML_H_
#define KERNELCAST_TESTS_FAKES_CUDA_FAKE_NVML_H_

#include <functional>

#include "services/worker/cuda/api/nvml_api.h"

namespace kernelcast::testing {

// One device that says what it is told to. There is one to a process.
struct FakeNvml {
  // Called at each look; 0: the library cannot tell.
  std::function<unsigned int()> clock_mhz = [] { return 1980u; };
  unsigned long long reasons = 0;
  bool knows_device = true;

  static FakeNvml& Instance();
  // Functions that the monitor does not call are null.
  static const worker::NvmlApi& Api();
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_FAKES_CUDA_FAKE_NVML_H_
