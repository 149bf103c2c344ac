#include "services/worker/cuda/judge/device_monitor.h"

#include <algorithm>

namespace kernelcast::worker {
namespace {

constexpr int64_t kWarmForNs = 1'000'000'000;

}  // namespace

DeviceMonitor::DeviceMonitor(const NvmlApi* nvml, const std::string& device_uuid,
                             const Clock& clock)
    : nvml_(nvml), clock_(clock) {
  if (nvml_ != nullptr &&
      nvml_->DeviceGetHandleByUuid(device_uuid.c_str(), &device_) != nvml::kSuccess) {
    nvml_ = nullptr;
  }
}

double DeviceMonitor::ClockHz() const {
  unsigned int mhz = 0;
  if (nvml_ == nullptr ||
      nvml_->DeviceGetClockInfo(device_, nvml::kClockSm, &mhz) != nvml::kSuccess) {
    return 0;
  }
  return 1e6 * mhz;
}

double DeviceMonitor::MaxClockHz(nvml::ClockType clock) const {
  unsigned int mhz = 0;
  if (nvml_ == nullptr || nvml_->DeviceGetMaxClockInfo(device_, clock, &mhz) != nvml::kSuccess) {
    return 0;
  }
  return 1e6 * mhz;
}

bool DeviceMonitor::IsWarm() const { return worked_ns_ > clock_.MonotonicNs() - kWarmForNs; }

void DeviceMonitor::NoteWork() { worked_ns_ = clock_.MonotonicNs(); }

void DeviceMonitor::Begin() {
  start_hz_ = ClockHz();
  least_hz_ = start_hz_;
  reasons_ = 0;
}

double DeviceMonitor::Look() {
  const double hz = ClockHz();
  if (hz > 0) {
    least_hz_ = least_hz_ > 0 ? std::min(least_hz_, hz) : hz;
  }
  unsigned long long reasons = 0;
  if (nvml_ != nullptr && nvml_->DeviceGetClocksEventReasons(device_, &reasons) == nvml::kSuccess) {
    reasons_ |= reasons;
  }
  return hz;
}

void DeviceMonitor::Fill(Environment& environment) const {
  environment.clock_start_hz = start_hz_;
  environment.clock_min_hz = least_hz_;
  environment.throttle_reasons = ClockReasons(reasons_);
  if (nvml_ == nullptr) {
    return;
  }
  unsigned int celsius = 0;
  if (nvml_->DeviceGetTemperature(device_, nvml::kTemperatureGpu, &celsius) == nvml::kSuccess) {
    environment.temperature_celsius = celsius;
  }
  unsigned int milliwatts = 0;
  if (nvml_->DeviceGetPowerUsage(device_, &milliwatts) == nvml::kSuccess) {
    environment.power_watts = 1e-3 * milliwatts;
  }
}

}  // namespace kernelcast::worker
