#ifndef KERNELCAST_TESTS_FAKES_CUDA_FAKE_NVML_H_
#define KERNELCAST_TESTS_FAKES_CUDA_FAKE_NVML_H_

#include <functional>

#include "services/worker/cuda/api/nvml_api.h"

namespace kernelcast::testing {

// One device with values set by the test. There is one per process.
struct FakeNvml {
  // Called for each sample; 0: the library cannot tell.
  std::function<unsigned int()> clock_mhz = [] { return 1980u; };
  unsigned int max_clock_mhz = 2000;         // 0: the library cannot tell
  unsigned int max_memory_clock_mhz = 3200;  // as above
  unsigned long long reasons = 0;
  bool knows_device = true;

  static FakeNvml& Instance();
  // Functions that the monitor does not call are null.
  static const worker::NvmlApi& Api();
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_FAKES_CUDA_FAKE_NVML_H_
