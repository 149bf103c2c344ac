#ifndef KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_DEVICE_MONITOR_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_JUDGE_DEVICE_MONITOR_H_

#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/domain/measurement.h"
#include "services/worker/cuda/api/nvml_api.h"

namespace kernelcast::worker {

// Watches clocks, temperature and power of one device without changing them. Not thread-safe.
class DeviceMonitor {
 public:
  // `nvml` may be null. It and the clock must outlive the monitor. If the library is missing or
  // does not know the device, nothing is sampled.
  DeviceMonitor(const NvmlApi* nvml, const std::string& device_uuid,
                const Clock& clock = Clock::Real());

  // Current clock of the multiprocessors, or 0 if unknown. Takes about a microsecond.
  double ClockHz() const;
  // The maximum of nvml::kClockSm or nvml::kClockMemory, or 0 if unknown.
  double MaxClockHz(nvml::ClockType clock) const;

  // Whether there was work within the last second, so that clocks and memory are up to speed.
  bool IsWarm() const;
  void NoteWork();

  // Starts a new record. Fill writes what was seen since then.
  void Begin();
  // Samples the clock and the reasons for reduced clocks. Returns the clock, or 0 if unknown.
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
