#ifndef KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_PROFILER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_PROFILER_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/worker/cuda/api/cupti_api.h"

namespace kernelcast::worker::cuda_runner {

// A kernel that has run.
struct KernelRun {
  std::string name;
  double start_ns = 0;
  double duration_ns = 0;
  uint32_t registers = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;
};

// The values of some metrics, for each kernel in the order of the launches.
struct CounterValues {
  uint32_t passes = 0;
  std::vector<std::vector<double>> kernels;  // by kernel, by metric; NaN: not to be had
};

// NVIDIA's names of kCounterMetrics, then of kStallReasons, then of what the stalls are shares of.
std::vector<std::string> CounterMetricNames();

// What watches kernels run. At most one to a process, for one thread.
class Profiler {
 public:
  // Work that fails ends the profiling of it, with ABORTED.
  using Work = std::function<bool()>;

  virtual ~Profiler() = default;

  // Does `work` and tells of the kernels that ran meanwhile, by their start.
  [[nodiscard]] virtual absl::StatusOr<std::vector<KernelRun>> Trace(const Work& work) = 0;

  // Whether Count would be allowed to.
  [[nodiscard]] virtual absl::Status Try(CUdevice device, CUcontext context) = 0;

  // Counts over `call`, at most `max_kernels` of them that have ended when it returns; as often as
  // it takes to count all, each time after `prepare`. The context must be the thread's.
  // PERMISSION_DENIED, UNIMPLEMENTED, UNAVAILABLE: as CuptiStatus. NOT_FOUND: the device has none
  // of the metrics.
  [[nodiscard]] virtual absl::StatusOr<CounterValues> Count(CUdevice device, CUcontext context,
                                                            const std::vector<std::string>& metrics,
                                                            size_t max_kernels, const Work& prepare,
                                                            const Work& call) = 0;
};

// One that answers whatever it is asked with `why`.
std::unique_ptr<Profiler> NoProfiler(absl::Status why);

// On the library at `path`; without it, or where the headers were missing at build, one that says
// so. To be made before the driver is initialised.
std::unique_ptr<Profiler> OpenProfiler(const std::string& path);

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)
std::unique_ptr<Profiler> MakeCuptiProfiler(CuptiApi api);
#endif

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_PROFILER_H_
