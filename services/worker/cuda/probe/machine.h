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

// The parts of CUDA on a machine. An `error` says why something is missing, or is empty.

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
  // From NVML, where it reports them.
  std::optional<uint32_t> clock_mhz;
  std::optional<uint32_t> max_clock_mhz;
  std::optional<uint32_t> temperature_celsius;
  std::optional<double> power_watts;
  std::vector<std::string> clock_reasons;
  std::optional<bool> mig;
  std::optional<bool> persistence;
  std::vector<GpuProcess> processes;  // compute processes on the GPU
};

struct DriverReport {
  std::string error;
  std::string version;       // e.g. "580.82.07"; empty if NVML does not report it
  std::string cuda_version;  // the newest supported, e.g. "13.0"
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
  bool restricted = false;  // not permitted, but a driver setting can permit it
};

struct MachineReport {
  DriverReport driver;
  ToolReport nvrtc;
  ToolReport nvcc;
  ToolReport cupti;
  CountersReport counters;
  std::string headers_directory;
  bool has_cccl = false;                   // the headers of cub, thrust, cuda/std and nv
  std::vector<std::string> architectures;  // that NVRTC compiles for
};

// `cuda` and `nvml` may be errors. Initialises the driver, but creates no context.
DriverReport ReportDriver(const absl::StatusOr<const CudaApi*>& cuda,
                          const absl::StatusOr<const NvmlApi*>& nvml);

// Reports whether performance counters may be read, given the content of the driver's parameters
// (empty: no driver) and the hexadecimal capability mask of a process.
CountersReport ReportCounters(const std::string& driver_parameters,
                              const std::string& effective_capabilities);

// ReportCounters for this process. Also reports a missing library; `cupti_library` may be empty.
CountersReport ReportCountersHere(const std::string& cupti_library);

// Tries to use counters on the first device. Creates a context for it.
CountersReport TryCounters(const CudaApi& api, cuda_runner::Profiler& profiler);

// Reports everything. Opens libraries, runs `nvcc --version` and tries counters.
MachineReport ReportMachine(const std::vector<std::string>& homes);

// Returns one JSON object on one line.
std::string ToJson(const MachineReport& report);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_PROBE_MACHINE_H_
