#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_DEVICE_MONITOR_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_DEVICE_MONITOR_H_

#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/domain/measurement.h"
#include "services/worker/cuda/api/nvml_api.h"

namespace kernelcast::worker {

// Watches clocks, temperature and power of one device; changes none of them. Not thread-safe.
class DeviceMonitor {
 public:
  // Where the library is missing or does not know the device, nothing is ever sampled. `nvml` may
  // be null; it and the clock must outlive the monitor.
  DeviceMonitor(const NvmlApi* nvml, const std::string& device_uuid,
                const Clock& clock = Clock::Real());

  // Of the multiprocessors, now; 0 where it is not known. Takes about a microsecond.
  double ClockHz() const;

  // Whether there has been work within the last second, so that clocks and memory are awake.
  bool IsWarm() const;
  void NoteWork();

  // Starts a new record; `environment` is then filled with what was seen since.
  void Begin();
  // One more look at clocks and what slows them; the clock, or 0 where it is not known.
  double Look();
  void Fill(Environment& environment) const;

 private:
  const NvmlApi* nvml_;
  const Clock& clock_;
  nvml::DeviceHandle device_ = nullptr;
  double start_hz_ = 0;
  double least_hz_ = 0;
  unsigned long long reasons_ = 0;
  int64_t worked_ns_ = INT64_MIN;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_DEVICE_MONITOR_H_
