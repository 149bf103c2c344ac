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

// Values of metrics, for each kernel in the order of the launches.
struct CounterValues {
  uint32_t passes = 0;
  std::vector<std::vector<double>> kernels;  // by kernel, by metric; NaN: not available
};

// NVIDIA's names of kCounterMetrics, then of kStallReasons, then of the total that stalls are
// shares of.
std::vector<std::string> CounterMetricNames();

// Profiles kernels. At most one per process; use from one thread.
class Profiler {
 public:
  // Returns false on failure, which ends profiling with ABORTED.
  using Work = std::function<bool()>;

  virtual ~Profiler() = default;

  // Runs `work` and returns the kernels that ran during it, sorted by start time.
  [[nodiscard]] virtual absl::StatusOr<std::vector<KernelRun>> Trace(const Work& work) = 0;

  // Returns OK if Count would be permitted.
  [[nodiscard]] virtual absl::Status Try(CUdevice device, CUcontext context) = 0;

  // Counts over `call`, which launches at most `max_kernels` kernels and waits for them. Repeats
  // `prepare` and `call` until all metrics are counted. `context` must be current on the thread.
  // PERMISSION_DENIED, UNIMPLEMENTED, UNAVAILABLE: as CuptiStatus. NOT_FOUND: the device has none
  // of the metrics.
  [[nodiscard]] virtual absl::StatusOr<CounterValues> Count(CUdevice device, CUcontext context,
                                                            const std::vector<std::string>& metrics,
                                                            size_t max_kernels, const Work& prepare,
                                                            const Work& call) = 0;
};

// Returns a profiler whose every call fails with `why`.
std::unique_ptr<Profiler> NoProfiler(absl::Status why);

// Returns a profiler that uses the library at `path`. If the library cannot be opened, or its
// headers were missing at build time, every call fails with the reason. Must precede the
// initialisation of the driver.
std::unique_ptr<Profiler> OpenProfiler(const std::string& path);

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)
std::unique_ptr<Profiler> MakeCuptiProfiler(CuptiApi api);
#endif

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_PROFILER_H_
