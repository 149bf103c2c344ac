#ifndef KERNELCAST_SERVICES_WORKER_CUDA_API_NVML_API_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_API_NVML_API_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/cuda/api/shared_library.h"

namespace kernelcast::worker {

// The used part of NVIDIA's management library. Declared here because neither the driver nor the
// runtime headers include nvml.h. Names and values are those of that header.
namespace nvml {

struct Device;
using DeviceHandle = Device*;
using Return = int;

inline constexpr Return kSuccess = 0;
inline constexpr Return kInvalidArgument = 2;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kNoPermission = 4;
inline constexpr Return kNotFound = 6;
inline constexpr Return kInsufficientSize = 7;

enum ClockType : int { kClockGraphics = 0, kClockSm = 1, kClockMemory = 2 };
inline constexpr int kTemperatureGpu = 0;

// Bits of the reasons for reduced clocks.
inline constexpr unsigned long long kReasonIdle = 0x1;
inline constexpr unsigned long long kReasonApplicationClocks = 0x2;
inline constexpr unsigned long long kReasonPowerCap = 0x4;
inline constexpr unsigned long long kReasonHardwareSlowdown = 0x8;
inline constexpr unsigned long long kReasonSyncBoost = 0x10;
inline constexpr unsigned long long kReasonSoftwareThermal = 0x20;
inline constexpr unsigned long long kReasonHardwareThermal = 0x40;
inline constexpr unsigned long long kReasonPowerBrake = 0x80;
inline constexpr unsigned long long kReasonDisplayClocks = 0x100;

struct Memory {  // bytes
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct ProcessInfo {
  unsigned int pid;
  unsigned long long used_memory_bytes;  // all ones: unknown
  unsigned int gpu_instance_id;
  unsigned int compute_instance_id;
};

}  // namespace nvml

// As thread-safe as the library.
struct NvmlApi {
  nvml::Return (*Init)() = nullptr;
  nvml::Return (*Shutdown)() = nullptr;
  const char* (*ErrorString)(nvml::Return) = nullptr;
  nvml::Return (*SystemGetDriverVersion)(char* version, unsigned int length) = nullptr;
  nvml::Return (*DeviceGetCount)(unsigned int*) = nullptr;
  nvml::Return (*DeviceGetHandleByIndex)(unsigned int, nvml::DeviceHandle*) = nullptr;
  nvml::Return (*DeviceGetHandleByUuid)(const char*, nvml::DeviceHandle*) = nullptr;
  nvml::Return (*DeviceGetName)(nvml::DeviceHandle, char*, unsigned int length) = nullptr;
  nvml::Return (*DeviceGetUuid)(nvml::DeviceHandle, char*, unsigned int length) = nullptr;
  nvml::Return (*DeviceGetMemoryInfo)(nvml::DeviceHandle, nvml::Memory*) = nullptr;
  nvml::Return (*DeviceGetClockInfo)(nvml::DeviceHandle, int clock, unsigned int* mhz) = nullptr;
  nvml::Return (*DeviceGetMaxClockInfo)(nvml::DeviceHandle, int clock, unsigned int* mhz) = nullptr;
  nvml::Return (*DeviceGetClocksEventReasons)(nvml::DeviceHandle,
                                              unsigned long long* bits) = nullptr;
  nvml::Return (*DeviceGetTemperature)(nvml::DeviceHandle, int sensor,
                                       unsigned int* celsius) = nullptr;
  nvml::Return (*DeviceGetPowerUsage)(nvml::DeviceHandle, unsigned int* milliwatts) = nullptr;
  // `count` is the capacity of the array on entry and the number of processes on return.
  nvml::Return (*DeviceGetComputeRunningProcesses)(nvml::DeviceHandle, unsigned int* count,
                                                   nvml::ProcessInfo*) = nullptr;
  nvml::Return (*DeviceGetMigMode)(nvml::DeviceHandle, unsigned int* current,
                                   unsigned int* pending) = nullptr;
  nvml::Return (*DeviceGetPersistenceMode)(nvml::DeviceHandle, int* enabled) = nullptr;
};

// Opens and initialises the library, once. NOT_FOUND: no library. UNIMPLEMENTED: it lacks
// functions. UNAVAILABLE: initialisation failed. The table lives as long as the process.
[[nodiscard]] absl::StatusOr<const NvmlApi*> LoadNvmlApi();

[[nodiscard]] absl::StatusOr<NvmlApi> FillNvmlApi(const SymbolLookup& lookup);

// Returns OK, UNIMPLEMENTED (not supported by this device), PERMISSION_DENIED, NOT_FOUND,
// INVALID_ARGUMENT or UNAVAILABLE.
[[nodiscard]] absl::Status NvmlStatus(const NvmlApi& api, nvml::Return result,
                                      std::string_view what);

// Returns the reasons for reduced clocks, e.g. "power_cap", "hardware_thermal". Idleness is left
// out.
std::vector<std::string> ClockReasons(unsigned long long bits);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_API_NVML_API_H_
