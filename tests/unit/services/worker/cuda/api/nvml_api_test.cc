#include "services/worker/cuda/api/nvml_api.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace kernelcast::worker {
namespace {

TEST_CASE("The older name of a function is used when the newer is missing") {
  int older = 0;
  int other = 0;
  const auto api = FillNvmlApi([&](const char* symbol) -> void* {
    const std::string name(symbol);
    if (name == "nvmlDeviceGetCurrentClocksEventReasons") {
      return nullptr;
    }
    return name == "nvmlDeviceGetCurrentClocksThrottleReasons" ? &older : &other;
  });
  REQUIRE(api.ok());
  CHECK(reinterpret_cast<void*>(api->DeviceGetClocksEventReasons) == &older);
}

TEST_CASE("Missing functions of a library are named") {
  const auto api = FillNvmlApi([](const char*) -> void* { return nullptr; });
  REQUIRE(absl::IsUnimplemented(api.status()));
  CHECK_THAT(std::string(api.status().message()),
             Catch::StartsWith("libnvidia-ml is too old or too new: it has no nvmlInit_v2, ") &&
                 Catch::Contains("nvmlDeviceGetCurrentClocksThrottleReasons"));
}

TEST_CASE("NVML results become statuses") {
  NvmlApi api;
  api.ErrorString = [](nvml::Return) { return "Not Supported"; };
  CHECK(NvmlStatus(api, nvml::kSuccess, "x").ok());
  CHECK(NvmlStatus(api, nvml::kNotSupported, "MIG mode") ==
        absl::UnimplementedError("MIG mode: Not Supported"));
  CHECK(absl::IsPermissionDenied(NvmlStatus(api, nvml::kNoPermission, "x")));
  CHECK(absl::IsUnavailable(NvmlStatus(api, 999, "x")));
}

TEST_CASE("All reasons for lower clocks except idleness have names") {
  CHECK(ClockReasons(0).empty());
  CHECK(ClockReasons(nvml::kReasonIdle).empty());
  CHECK(ClockReasons(nvml::kReasonPowerCap | nvml::kReasonHardwareThermal | nvml::kReasonIdle) ==
        std::vector<std::string>{"power_cap", "hardware_thermal"});
}

}  // namespace
}  // namespace kernelcast::worker
