#ifndef KERNELCAST_SERVICES_WORKER_TELEMETRY_WORKER_METRICS_H_
#define KERNELCAST_SERVICES_WORKER_TELEMETRY_WORKER_METRICS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/measurement.h"
#include "common/metrics/metrics.h"
#include "services/worker/core/target.h"

namespace kernelcast::worker {

// The worker's own metrics, all created by the constructor. Thread-safe.
class WorkerMetrics {
 public:
  // `devices` maps each target to the devices that it measures on.
  WorkerMetrics(MetricsRegistry& registry,
                const std::map<std::string, std::vector<TargetDevice>>& devices,
                uint32_t compile_credits, uint32_t measure_credits);

  void Compiled(const std::string& target, const absl::StatusOr<CompileResult>& result,
                double seconds);
  void Measured(const std::string& target, size_t device,
                const absl::StatusOr<Measurement>& measurement, double seconds);
  void DeviceUp(const std::string& target, size_t device, bool up);
  void CompileWaited(const std::string& target, double seconds);
  void MeasureWaited(const std::string& target, double seconds);
  void CompilesInFlight(uint32_t count) { compiles_in_flight_->Set(count); }
  void MeasuresInFlight(uint32_t count) { measures_in_flight_->Set(count); }

 private:
  struct PerDevice {
    std::map<std::string, prometheus::Counter*, std::less<>> measurements;  // by result
    std::map<std::string, prometheus::Counter*, std::less<>> throttled;     // by reason
    prometheus::Gauge* up = nullptr;
    prometheus::Gauge* clock_hertz = nullptr;
    prometheus::Gauge* temperature_celsius = nullptr;
    prometheus::Gauge* power_watts = nullptr;
    prometheus::Histogram* interval_width = nullptr;
    prometheus::Histogram* measure_seconds = nullptr;
  };
  struct PerTarget {
    std::vector<PerDevice> devices;
    std::map<std::string, prometheus::Counter*, std::less<>> compiles;  // by result
    prometheus::Histogram* measure_wait_seconds = nullptr;
    prometheus::Histogram* compile_seconds = nullptr;
    prometheus::Histogram* compile_wait_seconds = nullptr;
  };
  static void MeasuredAs(const MeasuredOk& ok, PerDevice& metrics);
  PerTarget* Find(const std::string& target);

  std::map<std::string, PerTarget> targets_;
  prometheus::Gauge* compiles_in_flight_;
  prometheus::Gauge* measures_in_flight_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_TELEMETRY_WORKER_METRICS_H_
