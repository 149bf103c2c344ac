#include "services/worker/cuda/api/nvml_api.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::worker {

absl::StatusOr<NvmlApi> FillNvmlApi(const SymbolLookup& lookup) {
  NvmlApi api;
  TableFiller filler(lookup);
  filler.Fill(api.Init, "nvmlInit_v2");
  filler.Fill(api.Shutdown, "nvmlShutdown");
  filler.Fill(api.ErrorString, "nvmlErrorString");
  filler.Fill(api.SystemGetDriverVersion, "nvmlSystemGetDriverVersion");
  filler.Fill(api.DeviceGetCount, "nvmlDeviceGetCount_v2");
  filler.Fill(api.DeviceGetHandleByIndex, "nvmlDeviceGetHandleByIndex_v2");
  filler.Fill(api.DeviceGetHandleByUuid, "nvmlDeviceGetHandleByUUID");
  filler.Fill(api.DeviceGetName, "nvmlDeviceGetName");
  filler.Fill(api.DeviceGetUuid, "nvmlDeviceGetUUID");
  filler.Fill(api.DeviceGetMemoryInfo, "nvmlDeviceGetMemoryInfo");
  filler.Fill(api.DeviceGetClockInfo, "nvmlDeviceGetClockInfo");
  filler.Fill(api.DeviceGetMaxClockInfo, "nvmlDeviceGetMaxClockInfo");
  filler.Fill(api.DeviceGetClocksEventReasons, "nvmlDeviceGetCurrentClocksEventReasons",
              "nvmlDeviceGetCurrentClocksThrottleReasons");
  filler.Fill(api.DeviceGetTemperature, "nvmlDeviceGetTemperature");
  filler.Fill(api.DeviceGetPowerUsage, "nvmlDeviceGetPowerUsage");
  filler.Fill(api.DeviceGetComputeRunningProcesses, "nvmlDeviceGetComputeRunningProcesses_v3");
  filler.Fill(api.DeviceGetMigMode, "nvmlDeviceGetMigMode");
  filler.Fill(api.DeviceGetPersistenceMode, "nvmlDeviceGetPersistenceMode");
  KC_RETURN_IF_ERROR(filler.Finish("libnvidia-ml"));
  return api;
}

absl::StatusOr<const NvmlApi*> LoadNvmlApi() {
  static const auto* const loaded = new absl::StatusOr<NvmlApi>([]() -> absl::StatusOr<NvmlApi> {
    const std::string names[] = {"libnvidia-ml.so.1"};
    KC_ASSIGN_OR_RETURN(const SharedLibrary library, OpenLibrary(names));
    KC_ASSIGN_OR_RETURN(NvmlApi api, FillNvmlApi(library.lookup));
    KC_RETURN_IF_ERROR(NvmlStatus(api, api.Init(), "nvmlInit"));
    return api;
  }());
  KC_RETURN_IF_ERROR(loaded->status());
  return &**loaded;
}

absl::Status NvmlStatus(const NvmlApi& api, nvml::Return result, std::string_view what) {
  if (result == nvml::kSuccess) {
    return absl::OkStatus();
  }
  const char* text = api.ErrorString == nullptr ? nullptr : api.ErrorString(result);
  const std::string message = absl::StrCat(
      std::string(what), ": ", text == nullptr ? absl::StrCat("NVML error ", result) : text);
  switch (result) {
    case nvml::kInvalidArgument:
    case nvml::kInsufficientSize: return absl::InvalidArgumentError(message);
    case nvml::kNotSupported: return absl::UnimplementedError(message);
    case nvml::kNoPermission: return absl::PermissionDeniedError(message);
    case nvml::kNotFound: return absl::NotFoundError(message);
    default: return absl::UnavailableError(message);
  }
}

std::vector<std::string> ClockReasons(unsigned long long bits) {
  static constexpr std::pair<unsigned long long, const char*> kNames[] = {
      {nvml::kReasonApplicationClocks, "application_clocks"},
      {nvml::kReasonPowerCap, "power_cap"},
      {nvml::kReasonHardwareSlowdown, "hardware_slowdown"},
      {nvml::kReasonSyncBoost, "sync_boost"},
      {nvml::kReasonSoftwareThermal, "software_thermal"},
      {nvml::kReasonHardwareThermal, "hardware_thermal"},
      {nvml::kReasonPowerBrake, "power_brake"},
      {nvml::kReasonDisplayClocks, "display_clocks"},
  };
  std::vector<std::string> reasons;
  for (const auto& [bit, name] : kNames) {
    if ((bits & bit) != 0) {
      reasons.emplace_back(name);
    }
  }
  return reasons;
}

}  // namespace kernelcast::worker
