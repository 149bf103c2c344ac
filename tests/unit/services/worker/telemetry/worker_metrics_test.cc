#include "services/worker/telemetry/worker_metrics.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::worker {
namespace {

using Catch::Matchers::Contains;

TargetDevice Device(const std::string& model) {
  TargetDevice device;
  device.info.model = model;
  return device;
}

const std::map<std::string, std::vector<TargetDevice>> kDevices = {
    {"cpu", {Device("AMD EPYC")}}, {"cuda", {Device("NVIDIA H200"), Device("NVIDIA H200")}}};

Measurement Ok(const Environment& environment, const Ratio& speedup) {
  Measurement measurement;
  MeasuredOk ok;
  ok.environment = environment;
  ok.speedup = speedup;
  measurement.outcome = ok;
  return measurement;
}

TEST_CASE("Every label combination exists from the start under the device's model",
          "[worker][metrics]") {
  MetricsRegistry registry;
  const WorkerMetrics metrics(registry, kDevices, 8, 4);
  const std::string text = registry.Text();
  for (const char* line : {
           "kernelcast_worker_measurements_total{gpu=\"0\",gpu_model=\"h200\",result=\"exploit\"} "
           "0",
           "kernelcast_worker_compiles_total{gpu_model=\"cpu\",result=\"cached\"} 0",
           "kernelcast_worker_throttled_total{gpu=\"0\",gpu_model=\"h200\",reason=\"power_cap\"} 0",
           "kernelcast_worker_clock_hertz{gpu=\"0\",gpu_model=\"h200\"} 0",
           "kernelcast_worker_temperature_celsius{gpu=\"0\",gpu_model=\"cpu\"} 0",
           "kernelcast_worker_power_watts{gpu=\"0\",gpu_model=\"h200\"} 0",
           "kernelcast_worker_speedup_interval_ratio_count{gpu_model=\"h200\"} 0",
           "kernelcast_worker_slots{kind=\"measure\"} 4",
       }) {
    CHECK_THAT(text, Contains(line));
  }
}

TEST_CASE("A measurement is counted for its device", "[worker][metrics]") {
  MetricsRegistry registry;
  WorkerMetrics metrics(registry, kDevices, 8, 4);
  Environment environment;
  environment.clock_min_hz = 1.2e9;
  environment.temperature_celsius = 61;
  environment.power_watts = 320;
  environment.throttle_reasons = {"power_cap", "never heard of"};
  metrics.Measured("cuda", 0, Ok(environment, {2, 1.99, 2.02, 0.95}), 3);
  Measurement late;
  late.outcome = Timeout{};
  metrics.Measured("cuda", 0, late, 3);
  metrics.Measured("abacus", 0, Ok(environment, {2, 1.99, 2.02, 0.95}), 3);
  const std::string text = registry.Text();
  for (const char* line : {
           "kernelcast_worker_measurements_total{gpu=\"0\",gpu_model=\"h200\",result=\"ok\"} 1",
           "kernelcast_worker_measurements_total{gpu=\"0\",gpu_model=\"h200\",result=\"timeout\"} "
           "1",
           "kernelcast_worker_clock_hertz{gpu=\"0\",gpu_model=\"h200\"} 1200000000",
           "kernelcast_worker_temperature_celsius{gpu=\"0\",gpu_model=\"h200\"} 61",
           "kernelcast_worker_power_watts{gpu=\"0\",gpu_model=\"h200\"} 320",
           "kernelcast_worker_throttled_total{gpu=\"0\",gpu_model=\"h200\",reason=\"power_cap\"} 1",
           "kernelcast_worker_throttled_total{gpu=\"0\",gpu_model=\"h200\",reason=\"other\"} 1",
           "kernelcast_worker_throttled_total{gpu=\"0\",gpu_model=\"h200\",reason=\"power_brake\"} "
           "0",
           "kernelcast_worker_speedup_interval_ratio_bucket{gpu_model=\"h200\",le=\"0.01\"} 0",
           "kernelcast_worker_speedup_interval_ratio_bucket{gpu_model=\"h200\",le=\"0.02\"} 1",
           "kernelcast_worker_clock_hertz{gpu=\"0\",gpu_model=\"cpu\"} 0",
       }) {
    CHECK_THAT(text, Contains(line));
  }
}

TEST_CASE("Devices of one target are distinguished", "[worker][metrics]") {
  MetricsRegistry registry;
  WorkerMetrics metrics(registry, kDevices, 8, 4);
  metrics.Measured("cuda", 1, Ok({}, {2, 1.99, 2.02, 0.95}), 3);
  metrics.DeviceUp("cuda", 0, false);
  metrics.DeviceUp("cuda", 7, false);
  metrics.Measured("cuda", 7, Ok({}, {2, 1.99, 2.02, 0.95}), 3);
  const std::string text = registry.Text();
  for (const char* line : {
           "kernelcast_worker_measurements_total{gpu=\"0\",gpu_model=\"h200\",result=\"ok\"} 0",
           "kernelcast_worker_measurements_total{gpu=\"1\",gpu_model=\"h200\",result=\"ok\"} 1",
           "kernelcast_worker_device_up{gpu=\"0\",gpu_model=\"h200\"} 0",
           "kernelcast_worker_device_up{gpu=\"1\",gpu_model=\"h200\"} 1",
           "kernelcast_worker_device_up{gpu=\"0\",gpu_model=\"cpu\"} 1",
       }) {
    CHECK_THAT(text, Contains(line));
  }
}

}  // namespace
}  // namespace kernelcast::worker
