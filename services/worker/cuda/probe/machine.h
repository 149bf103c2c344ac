#ifndef KERNELCAST_SERVICES_WORKER_CUDA_PROBE_MACHINE_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_PROBE_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/worker/cuda/api/cuda_api.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/api/nvml_api.h"
#include "services/worker/cuda/runner/profiler.h"

namespace kernelcast::worker {

// What of CUDA a machine has. Texts named `error` say why something is not there, or are empty.

struct GpuProcess {
  uint32_t pid = 0;
  std::optional<uint64_t> memory_bytes;
};

struct GpuReport {
  std::string name;
  std::string uuid;          // "GPU-..."
  std::string architecture;  // "sm_90"
  uint64_t memory_bytes = 0;
  std::optional<uint64_t> memory_free_bytes;
  int multiprocessors = 0;
  // What NVML says of it, where it does.
  std::optional<uint32_t> clock_mhz;
  std::optional<uint32_t> max_clock_mhz;
  std::optional<uint32_t> temperature_celsius;
  std::optional<double> power_watts;
  std::vector<std::string> clock_reasons;
  std::optional<bool> mig;
  std::optional<bool> persistence;
  std::vector<GpuProcess> processes;  // that compute on it
};

struct DriverReport {
  std::string error;
  std::string version;       // of the driver, "580.82.07"; empty where NVML does not say
  std::string cuda_version;  // the newest that it supports, "13.0"
  std::vector<GpuReport> gpus;
};

struct ToolReport {
  std::string error;
  std::string path;
  std::string version;
};

struct CountersReport {
  bool permitted = false;
  std::string reason;       // why, or why not
  bool restricted = false;  // not permitted, and the driver can be told to
};

struct MachineReport {
  DriverReport driver;
  ToolReport nvrtc;
  ToolReport nvcc;
  ToolReport cupti;
  CountersReport counters;
  std::string headers_directory;
  std::vector<std::string> architectures;  // that NVRTC compiles for
};

// `cuda` and `nvml` may be errors. Initialises the driver, but makes no context.
DriverReport ReportDriver(const absl::StatusOr<const CudaApi*>& cuda,
                          const absl::StatusOr<const NvmlApi*>& nvml);

// Whether performance counters may be read, by the content of the driver's parameters (empty: no
// driver) and the hexadecimal mask of capabilities of this process.
CountersReport ReportCounters(const std::string& driver_parameters,
                              const std::string& effective_capabilities);

// The same for this process, and whether it has what it takes: `cupti_library` may be empty.
CountersReport ReportCountersHere(const std::string& cupti_library);

// What comes of asking for them on the first device. Makes a context for it.
CountersReport TryCounters(const CudaApi& api, cuda_runner::Profiler& profiler);

// Everything; opens libraries, runs `nvcc --version` and asks for counters.
MachineReport ReportMachine(const std::vector<std::string>& homes);

// One JSON object, on one line.
std::string ToJson(const MachineReport& report);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_PROBE_MACHINE_H_
