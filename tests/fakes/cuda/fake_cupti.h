#ifndef KERNELCAST_TESTS_FAKES_CUDA_FAKE_CUPTI_H_
#define KERNELCAST_TESTS_FAKES_CUDA_FAKE_CUPTI_H_

#include "services/worker/cuda/api/cupti_api.h"

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/fakes/cuda/fake_cuda.h"

namespace kernelcast::testing {

// CUPTI over the fake driver, one per process. Calls out of order fail with
// CUPTI_ERROR_INVALID_OPERATION.
class FakeCupti {
 public:
  static constexpr int kPasses = 3;
  static constexpr uint32_t kRegisters = 40;
  static constexpr int kStaticSharedBytes = 512;

  static FakeCupti& Instance();
  static worker::CuptiApi Api();

  // Resets to a new library.
  void Reset();

  // Calls of a member of CuptiApi fail, never return, or end the process.
  enum class Effect { kFail, kHang, kExit };
  void Inject(const std::string& function, Effect effect, CUptiResult error = CUPTI_ERROR_UNKNOWN) {
    faults_[function] = {effect, error};
  }

  // Metrics that the device lacks.
  std::set<std::string> unknown;
  // Value of a metric for a kernel; 1 by default. gpu__time_duration.sum is always the real one.
  std::function<double(const std::string& metric, const FakeCuda::Launched& kernel)> value;
  CUpti_Profiler_Support_Level virtual_gpu = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
  // Passes over all calls so far, and whether counting is over.
  int passes() const { return passes_; }
  bool enabled() const { return enabled_; }

 private:
  friend class FakeCuptiTable;
  struct Fault {
    Effect effect = Effect::kFail;
    CUptiResult error = CUPTI_ERROR_UNKNOWN;
  };

  CUptiResult Enter(const char* function);
  void Watch();

  std::map<std::string, Fault> faults_;
  bool initialised_ = false;
  bool tracing_ = false;
  bool enabled_ = false;
  bool configured_ = false;
  bool counting_ = false;
  bool decoded_ = false;
  int passes_ = 0;
  int passes_of_config_ = 0;
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  std::vector<FakeCuda::Launched> traced_;
  std::vector<FakeCuda::Launched> counted_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_HAS_CUPTI_HEADERS

#endif  // KERNELCAST_TESTS_FAKES_CUDA_FAKE_CUPTI_H_
