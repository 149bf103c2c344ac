#include "services/worker/cuda/probe/machine.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/process/child_process.h"
#include "services/worker/cuda/api/nvrtc_api.h"

namespace kernelcast::worker {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kToolTimeoutNs = 10'000'000'000;
constexpr int kCapSysAdmin = 21;
constexpr int kCapPerfmon = 38;
constexpr unsigned kMaxProcesses = 256;

// Formats a version, e.g. "13.0" for 13000.
std::string CudaVersion(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// Returns the value that a call of NVML writes, or nullopt if it fails.
template <class T, class Call>
std::optional<T> Ask(Call call) {
  T value{};
  return call(&value) == nvml::kSuccess ? std::optional(value) : std::nullopt;
}

void AddNvml(const NvmlApi& nvml, GpuReport& gpu) {
  nvml::DeviceHandle device = nullptr;
  if (nvml.DeviceGetHandleByUuid(gpu.uuid.c_str(), &device) != nvml::kSuccess) {
    return;
  }
  if (const auto memory =
          Ask<nvml::Memory>([&](auto* value) { return nvml.DeviceGetMemoryInfo(device, value); })) {
    gpu.memory_free_bytes = memory->free;
  }
  gpu.clock_mhz = Ask<unsigned>(
      [&](auto* value) { return nvml.DeviceGetClockInfo(device, nvml::kClockSm, value); });
  gpu.max_clock_mhz = Ask<unsigned>(
      [&](auto* value) { return nvml.DeviceGetMaxClockInfo(device, nvml::kClockSm, value); });
  gpu.temperature_celsius = Ask<unsigned>(
      [&](auto* value) { return nvml.DeviceGetTemperature(device, nvml::kTemperatureGpu, value); });
  if (const auto milliwatts =
          Ask<unsigned>([&](auto* value) { return nvml.DeviceGetPowerUsage(device, value); })) {
    gpu.power_watts = *milliwatts / 1000.0;
  }
  if (const auto bits = Ask<unsigned long long>(
          [&](auto* value) { return nvml.DeviceGetClocksEventReasons(device, value); })) {
    gpu.clock_reasons = ClockReasons(*bits);
  }
  unsigned pending = 0;
  if (const auto current = Ask<unsigned>(
          [&](auto* value) { return nvml.DeviceGetMigMode(device, value, &pending); })) {
    gpu.mig = *current != 0;
  }
  if (const auto enabled =
          Ask<int>([&](auto* value) { return nvml.DeviceGetPersistenceMode(device, value); })) {
    gpu.persistence = *enabled != 0;
  }
  std::array<nvml::ProcessInfo, kMaxProcesses> processes{};
  unsigned count = kMaxProcesses;
  if (nvml.DeviceGetComputeRunningProcesses(device, &count, processes.data()) == nvml::kSuccess) {
    for (unsigned i = 0; i < count && i < kMaxProcesses; ++i) {
      GpuProcess process;
      process.pid = processes[i].pid;
      if (processes[i].used_memory_bytes != ~0ull) {
        process.memory_bytes = processes[i].used_memory_bytes;
      }
      gpu.processes.push_back(process);
    }
  }
}

// The value of a line "name: value".
std::string ValueOf(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name + ":", 0) == 0) {
      const size_t start = line.find_first_not_of(" \t", name.size() + 1);
      return start == std::string::npos ? "" : line.substr(start);
    }
  }
  return "";
}

void ReportNvrtc(const CudaToolkit& toolkit, MachineReport& report) {
  report.nvrtc.path = toolkit.nvrtc_library;
  const auto nvrtc = LoadNvrtcApi(toolkit);
  if (!nvrtc.ok()) {
    report.nvrtc.error = std::string(nvrtc.status().message());
    return;
  }
  int major = 0;
  int minor = 0;
  if (nvrtc->Version(&major, &minor) == NVRTC_SUCCESS) {
    report.nvrtc.version = absl::StrCat(major, ".", minor);
  }
  int count = 0;
  if (nvrtc->GetNumSupportedArchs(&count) != NVRTC_SUCCESS || count <= 0) {
    return;
  }
  std::vector<int> architectures(static_cast<size_t>(count));
  if (nvrtc->GetSupportedArchs(architectures.data()) == NVRTC_SUCCESS) {
    for (const int architecture : architectures) {
      report.architectures.push_back(absl::StrCat("sm_", architecture));
    }
  }
}

bool HasCccl(const CudaToolkit& toolkit) {
  std::vector<std::string> folders = {toolkit.include_directory + "/cccl",
                                      toolkit.include_directory};
  folders.insert(folders.end(), toolkit.more_include_directories.begin(),
                 toolkit.more_include_directories.end());
  return std::ranges::any_of(folders, [](const std::string& folder) {
    return access((folder + "/cub/cub.cuh").c_str(), R_OK) == 0;
  });
}

ToolReport ReportNvcc(const std::string& in_toolkit) {
  ToolReport report;
  ChildOptions options;
  options.argv = {in_toolkit.empty() ? "nvcc" : in_toolkit, "--version"};
  const char* path = getenv("PATH");
  options.environment = {absl::StrCat("PATH=", path == nullptr ? "/usr/bin:/bin" : path)};
  const auto child = ChildProcess::Spawn(options);
  if (!child.ok()) {
    report.error = "no nvcc";
    return report;
  }
  const ChildExit exit = (*child)->Wait(kToolTimeoutNs);
  report.path = options.argv[0];
  const size_t at = exit.output.find(", V");
  if (!exit.exited || exit.exit_code != 0 || at == std::string::npos) {
    report.error = absl::StrCat(report.path, " does not tell its version");
    return report;
  }
  const size_t end = exit.output.find_first_not_of("0123456789.", at + 3);
  report.version = exit.output.substr(at + 3, end - at - 3);
  return report;
}

ToolReport ReportCupti(const std::string& library) {
  ToolReport report;
  const std::vector<std::string> names =
      library.empty() ? std::vector<std::string>{"libcupti.so.13", "libcupti.so.12"}
                      : std::vector<std::string>{library};
  const auto opened = OpenLibrary(names);
  if (!opened.ok()) {
    report.error = library.empty() ? "no libcupti" : std::string(opened.status().message());
    return report;
  }
  report.path = opened->path;
  int (*get_version)(uint32_t*) = nullptr;
  TableFiller(opened->lookup).Fill(get_version, "cuptiGetVersion");
  uint32_t version = 0;
  if (get_version != nullptr && get_version(&version) == 0) {
    report.version = absl::StrCat("API ", version);
  }
  return report;
}

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json ToolJson(const ToolReport& tool) {
  return {{"found", tool.error.empty()},
          {"path", tool.path},
          {"version", tool.version},
          {"error", tool.error}};
}

Json GpuJson(const GpuReport& gpu) {
  Json processes = Json::array();
  for (const GpuProcess& process : gpu.processes) {
    processes.push_back({{"pid", process.pid}, {"memory_bytes", OrNull(process.memory_bytes)}});
  }
  return {{"name", gpu.name},
          {"uuid", gpu.uuid},
          {"architecture", gpu.architecture},
          {"memory_bytes", gpu.memory_bytes},
          {"memory_free_bytes", OrNull(gpu.memory_free_bytes)},
          {"multiprocessors", gpu.multiprocessors},
          {"clock_mhz", OrNull(gpu.clock_mhz)},
          {"max_clock_mhz", OrNull(gpu.max_clock_mhz)},
          {"temperature_celsius", OrNull(gpu.temperature_celsius)},
          {"power_watts", OrNull(gpu.power_watts)},
          {"clock_reasons", gpu.clock_reasons},
          {"mig", OrNull(gpu.mig)},
          {"persistence", OrNull(gpu.persistence)},
          {"processes", std::move(processes)}};
}

}  // namespace

DriverReport ReportDriver(const absl::StatusOr<const CudaApi*>& cuda,
                          const absl::StatusOr<const NvmlApi*>& nvml) {
  DriverReport report;
  if (nvml.ok()) {
    char version[96] = {};
    if ((*nvml)->SystemGetDriverVersion(version, sizeof(version)) == nvml::kSuccess) {
      version[sizeof(version) - 1] = '\0';
      report.version = version;
    }
  }
  if (!cuda.ok()) {
    report.error = std::string(cuda.status().message());
    return report;
  }
  const CudaApi& api = **cuda;
  int version = 0;
  if (api.DriverGetVersion(&version) == CUDA_SUCCESS) {
    report.cuda_version = CudaVersion(version);
  }
  int count = 0;
  absl::Status status = CudaStatus(api, api.Init(0), "cuInit");
  if (status.ok()) {
    status = CudaStatus(api, api.DeviceGetCount(&count), "cuDeviceGetCount");
  }
  if (!status.ok()) {
    report.error = std::string(status.message());
    return report;
  }
  for (int i = 0; i < count; ++i) {
    GpuReport gpu;
    CUdevice device = 0;
    if (api.DeviceGet(&device, i) != CUDA_SUCCESS) {
      continue;
    }
    char name[128] = {};
    if (api.DeviceGetName(name, sizeof(name) - 1, device) == CUDA_SUCCESS) {
      gpu.name = name;
    }
    CUuuid uuid{};
    if (api.DeviceGetUuid(&uuid, device) == CUDA_SUCCESS) {
      gpu.uuid = UuidText(uuid);
    }
    size_t bytes = 0;
    if (api.DeviceTotalMem(&bytes, device) == CUDA_SUCCESS) {
      gpu.memory_bytes = bytes;
    }
    const auto attribute = [&](CUdevice_attribute which) {
      int value = 0;
      return api.DeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
    };
    gpu.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    gpu.architecture = absl::StrCat("sm_", attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                                    attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
    if (nvml.ok()) {
      AddNvml(**nvml, gpu);
    }
    report.gpus.push_back(std::move(gpu));
  }
  return report;
}

CountersReport ReportCounters(const std::string& driver_parameters,
                              const std::string& effective_capabilities) {
  CountersReport report;
  if (driver_parameters.empty()) {
    report.reason = "no NVIDIA driver is loaded";
    return report;
  }
  const std::string admin_only = ValueOf(driver_parameters, "RmProfilingAdminOnly");
  if (admin_only == "0") {
    report.permitted = true;
    report.reason = "the driver lets every user read them";
    return report;
  }
  const unsigned long long capabilities = strtoull(effective_capabilities.c_str(), nullptr, 16);
  report.permitted =
      (capabilities >> kCapSysAdmin & 1) != 0 || (capabilities >> kCapPerfmon & 1) != 0;
  report.reason = report.permitted
                      ? "the driver lets administrators read them, and this process is one"
                      : "the driver lets administrators only read them "
                        "(RmProfilingAdminOnly is 1)";
  report.restricted = !report.permitted;
  return report;
}

CountersReport ReportCountersHere(const std::string& cupti_library) {
#if defined(KERNELCAST_HAS_CUPTI_HEADERS)
  if (cupti_library.empty()) {
    return {false, "libcupti, a part of NVIDIA's toolkit, is not found", false};
  }
  return ReportCounters(ReadFile("/proc/driver/nvidia/params").value_or(""),
                        ValueOf(ReadFile("/proc/self/status").value_or(""), "CapEff"));
#else
  return {false, "built without the headers of CUPTI", false};
#endif
}

CountersReport TryCounters(const CudaApi& api, cuda_runner::Profiler& profiler) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  absl::Status tried = CudaStatus(api, api.DeviceGet(&device, 0), "cuDeviceGet");
  if (tried.ok()) {
    tried = CudaStatus(api, api.DevicePrimaryCtxRetain(&context, device), "making a context");
  }
  if (tried.ok()) {
    tried = CudaStatus(api, api.CtxSetCurrent(context), "using the context");
    if (tried.ok()) {
      tried = profiler.Try(device, context);
    }
    api.DevicePrimaryCtxRelease(device);
  }
  return {tried.ok(), tried.ok() ? "they can be read" : std::string(tried.message()),
          absl::IsPermissionDenied(tried)};
}

MachineReport ReportMachine(const std::vector<std::string>& homes) {
  MachineReport report;
  const auto toolkit = FindCudaToolkit(homes);
  // Must precede the initialisation of the driver.
  const std::string cupti_library = toolkit.ok() ? toolkit->cupti_library : "";
  const auto profiler = cupti_library.empty() ? nullptr : cuda_runner::OpenProfiler(cupti_library);
  const auto cuda = LoadCudaApi();
  report.driver = ReportDriver(cuda, LoadNvmlApi());
  report.counters = ReportCounters(ReadFile("/proc/driver/nvidia/params").value_or(""),
                                   ValueOf(ReadFile("/proc/self/status").value_or(""), "CapEff"));
  if (!report.driver.gpus.empty() && profiler != nullptr) {
    const CountersReport tried = TryCounters(**cuda, *profiler);
    // If both say no, the driver's setting is what an operator can change.
    if (tried.permitted || report.counters.permitted) {
      report.counters = tried;
    }
  }
  if (toolkit.ok()) {
    report.headers_directory = toolkit->include_directory;
    report.has_cccl = HasCccl(*toolkit);
    ReportNvrtc(*toolkit, report);
  } else {
    report.nvrtc.error = std::string(toolkit.status().message());
  }
  report.nvcc = ReportNvcc(toolkit.ok() ? toolkit->nvcc : "");
  report.cupti = ReportCupti(toolkit.ok() ? toolkit->cupti_library : "");
  return report;
}

std::string ToJson(const MachineReport& report) {
  Json gpus = Json::array();
  for (const GpuReport& gpu : report.driver.gpus) {
    gpus.push_back(GpuJson(gpu));
  }
  Json nvrtc = ToolJson(report.nvrtc);
  nvrtc["headers"] = report.headers_directory;
  nvrtc["cccl"] = report.has_cccl;
  nvrtc["architectures"] = report.architectures;
  const Json json = {{"driver",
                      {{"found", report.driver.error.empty()},
                       {"version", report.driver.version},
                       {"cuda_version", report.driver.cuda_version},
                       {"error", report.driver.error}}},
                     {"gpus", std::move(gpus)},
                     {"nvrtc", std::move(nvrtc)},
                     {"nvcc", ToolJson(report.nvcc)},
                     {"cupti", ToolJson(report.cupti)},
                     {"counters",
                      {{"permitted", report.counters.permitted},
                       {"reason", report.counters.reason},
                       {"restricted", report.counters.restricted}}}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kernelcast::worker
