#include "services/worker/telemetry/worker_metrics.h"

#include <variant>
#include <vector>

#include "common/metrics/gpu_model_label.h"
#include "services/worker/core/verdict.h"

namespace kernelcast::worker {
namespace {

constexpr std::string_view kMeasureResults[] = {
    "ok",     "wrong_result",  "crash",   "timeout", "exploit", "environment_unstable",
    "passed", "compile_error", "stopped", "error"};
constexpr std::string_view kCompileResults[] = {"success", "cached", "rejected", "stopped",
                                                "error"};

// The names that ClockReasons of nvml_api.h returns.
constexpr std::string_view kThrottleReasons[] = {
    "application_clocks", "power_cap",   "hardware_slowdown", "sync_boost", "software_thermal",
    "hardware_thermal",   "power_brake", "display_clocks",    "other"};

bool Stopped(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

WorkerMetrics::WorkerMetrics(MetricsRegistry& registry,
                             const std::map<std::string, std::vector<TargetDevice>>& devices,
                             uint32_t compile_credits, uint32_t measure_credits) {
  const std::vector<double> bounds = MetricsRegistry::DurationBounds();
  for (const auto& [target, of_target] : devices) {
    PerTarget& metrics = targets_[target];
    for (size_t device = 0; device < of_target.size(); ++device) {
      const std::string model(GpuModelLabel(target, of_target[device].info.model));
      const std::string gpu = std::to_string(device);
      const Labels labels = {{"gpu_model", model}, {"gpu", gpu}};
      PerDevice& own = metrics.devices.emplace_back();
      for (const std::string_view result : kMeasureResults) {
        own.measurements[std::string(result)] = &registry.Counter(
            "kernelcast_worker_measurements_total", "Candidates measured, by device and outcome",
            {{"gpu_model", model}, {"gpu", gpu}, {"result", std::string(result)}});
      }
      for (const std::string_view reason : kThrottleReasons) {
        own.throttled[std::string(reason)] = &registry.Counter(
            "kernelcast_worker_throttled_total",
            "Measurements during which something slowed the clocks down",
            {{"gpu_model", model}, {"gpu", gpu}, {"reason", std::string(reason)}});
      }
      own.up = &registry.Gauge("kernelcast_worker_device_up",
                               "1 where the device measures, 0 after it has failed", labels);
      own.up->Set(of_target[device].can_measure ? 1 : 0);
      own.clock_hertz = &registry.Gauge(
          "kernelcast_worker_clock_hertz",
          "Lowest clock seen during the last measurement; 0 where it is not known", labels);
      own.temperature_celsius = &registry.Gauge(
          "kernelcast_worker_temperature_celsius",
          "Of the device, after the last measurement; 0 where it is not known", labels);
      own.power_watts = &registry.Gauge(
          "kernelcast_worker_power_watts",
          "Of the device, after the last measurement; 0 where it is not known", labels);
      const Labels of_model = {{"gpu_model", model}};
      own.interval_width =
          &registry.Histogram("kernelcast_worker_speedup_interval_ratio",
                              "Width of a measured speedup's interval, relative to the speedup",
                              {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}, of_model);
      own.measure_seconds = &registry.Histogram(
          "kernelcast_worker_measure_duration_seconds",
          "Time to verify and time a candidate, with the wait for the lease", bounds, of_model);
    }
    const std::string model(
        GpuModelLabel(target, of_target.empty() ? std::string() : of_target[0].info.model));
    const Labels labels = {{"gpu_model", model}};
    for (const std::string_view result : kCompileResults) {
      metrics.compiles[std::string(result)] =
          &registry.Counter("kernelcast_worker_compiles_total", "Candidates compiled, by result",
                            {{"gpu_model", model}, {"result", std::string(result)}});
    }
    metrics.measure_wait_seconds =
        &registry.Histogram("kernelcast_worker_measure_queue_wait_seconds",
                            "Time that a candidate waited to be measured", bounds, labels);
    metrics.compile_seconds = &registry.Histogram("kernelcast_worker_compile_duration_seconds",
                                                  "Time to compile a candidate", bounds, labels);
    metrics.compile_wait_seconds =
        &registry.Histogram("kernelcast_worker_compile_queue_wait_seconds",
                            "Time that a candidate waited to be compiled", bounds, labels);
  }
  const auto slots = [&registry](const char* kind) -> prometheus::Gauge& {
    return registry.Gauge("kernelcast_worker_slots",
                          "Maximum number of requests, running and queued", {{"kind", kind}});
  };
  const auto in_use = [&registry](const char* kind) {
    return &registry.Gauge("kernelcast_worker_slots_in_use", "Requests running or queued",
                           {{"kind", kind}});
  };
  slots("compile").Set(compile_credits);
  slots("measure").Set(measure_credits);
  compiles_in_flight_ = in_use("compile");
  measures_in_flight_ = in_use("measure");
}

WorkerMetrics::PerTarget* WorkerMetrics::Find(const std::string& target) {
  const auto found = targets_.find(target);
  return found == targets_.end() ? nullptr : &found->second;
}

void WorkerMetrics::Compiled(const std::string& target, const absl::StatusOr<CompileResult>& result,
                             double seconds) {
  PerTarget* const metrics = Find(target);
  if (metrics == nullptr) {
    return;
  }
  std::string_view name = "error";
  if (result.ok()) {
    name = std::holds_alternative<CompileError>(result->result) ? "rejected"
           : result->cached                                     ? "cached"
                                                                : "success";
  } else if (Stopped(result.status())) {
    name = "stopped";
  }
  metrics->compiles.find(name)->second->Increment();
  metrics->compile_seconds->Observe(seconds);
}

void WorkerMetrics::Measured(const std::string& target, size_t device,
                             const absl::StatusOr<Measurement>& measurement, double seconds) {
  PerTarget* const metrics = Find(target);
  if (metrics == nullptr || device >= metrics->devices.size()) {
    return;
  }
  PerDevice& own = metrics->devices[device];
  const std::string_view name = measurement.ok()                ? OutcomeName(measurement->outcome)
                                : Stopped(measurement.status()) ? "stopped"
                                : NotCompiledError(measurement.status()) ? "compile_error"
                                                                         : "error";
  own.measurements.find(name)->second->Increment();
  own.measure_seconds->Observe(seconds);
  if (!measurement.ok()) return;
  if (const auto* const ok = std::get_if<MeasuredOk>(&measurement->outcome)) {
    MeasuredAs(*ok, own);
  }
}

void WorkerMetrics::DeviceUp(const std::string& target, size_t device, bool up) {
  PerTarget* const metrics = Find(target);
  if (metrics != nullptr && device < metrics->devices.size()) {
    metrics->devices[device].up->Set(up ? 1 : 0);
  }
}

void WorkerMetrics::MeasuredAs(const MeasuredOk& ok, PerDevice& metrics) {
  const Environment& environment = ok.environment;
  metrics.clock_hertz->Set(environment.clock_min_hz);
  metrics.temperature_celsius->Set(environment.temperature_celsius);
  metrics.power_watts->Set(environment.power_watts);
  for (const std::string& reason : environment.throttle_reasons) {
    const auto found = metrics.throttled.find(reason);
    (found != metrics.throttled.end() ? found : metrics.throttled.find("other"))
        ->second->Increment();
  }
  if (ok.speedup.value > 0) {
    metrics.interval_width->Observe((ok.speedup.high - ok.speedup.low) / ok.speedup.value);
  }
}

void WorkerMetrics::CompileWaited(const std::string& target, double seconds) {
  if (PerTarget* const metrics = Find(target)) {
    metrics->compile_wait_seconds->Observe(seconds);
  }
}

void WorkerMetrics::MeasureWaited(const std::string& target, double seconds) {
  if (PerTarget* const metrics = Find(target)) {
    metrics->measure_wait_seconds->Observe(seconds);
  }
}

}  // namespace kernelcast::worker
