#include "services/worker/cuda/judge/device_monitor.h"

#include <catch2/catch.hpp>

#include "common/base/clock.h"
#include "tests/fakes/cuda/fake_nvml.h"

namespace kernelcast::worker {
namespace {

using testing::FakeNvml;

FakeNvml& Fresh() {
  FakeNvml::Instance() = FakeNvml();
  return FakeNvml::Instance();
}

TEST_CASE("The starting clock, the lowest clock and its cause are kept") {
  FakeNvml& nvml = Fresh();
  DeviceMonitor monitor(&FakeNvml::Api(), "GPU-1");
  monitor.Begin();
  nvml.clock_mhz = [] { return 1500u; };
  nvml.reasons = nvml::kReasonPowerCap;
  CHECK(monitor.Look() == Approx(1.5e9));
  nvml.clock_mhz = [] { return 1700u; };
  nvml.reasons = 0;
  CHECK(monitor.Look() == Approx(1.7e9));
  Environment environment;
  monitor.Fill(environment);
  CHECK(environment.clock_start_hz == Approx(1.98e9));
  CHECK(environment.clock_min_hz == Approx(1.5e9));
  CHECK(environment.throttle_reasons == std::vector<std::string>{"power_cap"});
  CHECK(environment.temperature_celsius == 40);
  CHECK(environment.power_watts == Approx(250));
  monitor.Begin();
  monitor.Fill(environment);
  CHECK(environment.clock_min_hz == Approx(1.7e9));
  CHECK(environment.throttle_reasons.empty());
}

TEST_CASE("An unreadable clock is 0 and does not count as lower") {
  FakeNvml& nvml = Fresh();
  DeviceMonitor monitor(&FakeNvml::Api(), "GPU-1");
  nvml.clock_mhz = [] { return 0u; };
  monitor.Begin();
  nvml.clock_mhz = [] { return 1800u; };
  CHECK(monitor.Look() == Approx(1.8e9));
  nvml.clock_mhz = [] { return 0u; };
  CHECK(monitor.Look() == 0);
  Environment environment;
  monitor.Fill(environment);
  CHECK(environment.clock_min_hz == Approx(1.8e9));
}

TEST_CASE("Nothing is sampled without the library or for a device it does not know") {
  Fresh().knows_device = false;
  DeviceMonitor strange(&FakeNvml::Api(), "GPU-2");
  DeviceMonitor without(nullptr, "GPU-1");
  for (DeviceMonitor* const monitor : {&strange, &without}) {
    monitor->Begin();
    CHECK(monitor->Look() == 0);
    Environment environment;
    monitor->Fill(environment);
    CHECK(environment.clock_min_hz == 0);
    CHECK(environment.power_watts == 0);
  }
}

TEST_CASE("A device stays warm for one second after work") {
  FakeClock clock;
  DeviceMonitor monitor(nullptr, "", clock);
  CHECK_FALSE(monitor.IsWarm());
  monitor.NoteWork();
  CHECK(monitor.IsWarm());
  clock.Advance(999'999'999);
  CHECK(monitor.IsWarm());
  clock.Advance(1);
  CHECK_FALSE(monitor.IsWarm());
}

}  // namespace
}  // namespace kernelcast::worker
