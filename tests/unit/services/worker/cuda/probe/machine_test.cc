#include "services/worker/cuda/probe/machine.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "common/process/child_process.h"

namespace kernelcast::worker {
namespace {

using Json = nlohmann::json;

CudaApi MachineApi() {
  CudaApi api;
  api.Init = [](unsigned) { return CUDA_SUCCESS; };
  api.DriverGetVersion = [](int* version) {
    *version = 13000;
    return CUDA_SUCCESS;
  };
  api.GetErrorName = [](CUresult, const char** name) {
    *name = "CUDA_ERROR_NO_DEVICE";
    return CUDA_SUCCESS;
  };
  api.GetErrorString = [](CUresult, const char** text) {
    *text = "no CUDA-capable device is detected";
    return CUDA_SUCCESS;
  };
  api.DeviceGetCount = [](int* count) {
    *count = 1;
    return CUDA_SUCCESS;
  };
  api.DeviceGet = [](CUdevice* device, int) {
    *device = 0;
    return CUDA_SUCCESS;
  };
  api.DeviceGetName = [](char* name, int length, CUdevice) {
    strncpy(name, "NVIDIA H200", static_cast<size_t>(length));
    return CUDA_SUCCESS;
  };
  api.DeviceGetUuid = [](CUuuid* uuid, CUdevice) {
    for (int i = 0; i < 16; ++i) {
      uuid->bytes[i] = static_cast<char>(i * 17);
    }
    return CUDA_SUCCESS;
  };
  api.DeviceTotalMem = [](size_t* bytes, CUdevice) {
    *bytes = size_t{139} << 30;
    return CUDA_SUCCESS;
  };
  api.DeviceGetAttribute = [](int* value, CUdevice_attribute which, CUdevice) {
    *value = which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT       ? 132
             : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
                                                                     : 0;
    return CUDA_SUCCESS;
  };
  return api;
}

NvmlApi FakeNvml() {
  NvmlApi api;
  api.SystemGetDriverVersion = [](char* version, unsigned length) {
    strncpy(version, "580.82.07", length);
    return nvml::kSuccess;
  };
  api.DeviceGetHandleByUuid = [](const char* uuid, nvml::DeviceHandle* device) {
    *device = nullptr;
    return std::string(uuid) == "GPU-00112233-4455-6677-8899-aabbccddeeff" ? nvml::kSuccess
                                                                           : nvml::kNotFound;
  };
  api.DeviceGetMemoryInfo = [](nvml::DeviceHandle, nvml::Memory* memory) {
    *memory = {4096, 1024, 3072};
    return nvml::kSuccess;
  };
  api.DeviceGetClockInfo = [](nvml::DeviceHandle, int, unsigned* mhz) {
    *mhz = 345;
    return nvml::kSuccess;
  };
  api.DeviceGetMaxClockInfo = [](nvml::DeviceHandle, int, unsigned* mhz) {
    *mhz = 1980;
    return nvml::kSuccess;
  };
  api.DeviceGetClocksEventReasons = [](nvml::DeviceHandle, unsigned long long* bits) {
    *bits = nvml::kReasonIdle | nvml::kReasonPowerCap;
    return nvml::kSuccess;
  };
  api.DeviceGetTemperature = [](nvml::DeviceHandle, int, unsigned*) { return nvml::kNotSupported; };
  api.DeviceGetPowerUsage = [](nvml::DeviceHandle, unsigned* milliwatts) {
    *milliwatts = 75500;
    return nvml::kSuccess;
  };
  api.DeviceGetComputeRunningProcesses = [](nvml::DeviceHandle, unsigned* count,
                                            nvml::ProcessInfo* processes) {
    *count = 2;
    processes[0] = {77, 1 << 20, 0, 0};
    processes[1] = {78, ~0ull, 0, 0};
    return nvml::kSuccess;
  };
  api.DeviceGetMigMode = [](nvml::DeviceHandle, unsigned* current, unsigned* pending) {
    *current = *pending = 0;
    return nvml::kSuccess;
  };
  api.DeviceGetPersistenceMode = [](nvml::DeviceHandle, int* enabled) {
    *enabled = 1;
    return nvml::kSuccess;
  };
  return api;
}

TEST_CASE("A GPU is described by the driver and by NVML") {
  const CudaApi cuda = MachineApi();
  const NvmlApi nvml = FakeNvml();
  const DriverReport report = ReportDriver(&cuda, &nvml);
  CHECK(report.error.empty());
  CHECK(report.version == "580.82.07");
  CHECK(report.cuda_version == "13.0");
  REQUIRE(report.gpus.size() == 1);
  const GpuReport& gpu = report.gpus[0];
  CHECK(gpu.name == "NVIDIA H200");
  CHECK(gpu.uuid == "GPU-00112233-4455-6677-8899-aabbccddeeff");
  CHECK(gpu.architecture == "sm_90");
  CHECK(gpu.multiprocessors == 132);
  CHECK(gpu.memory_free_bytes == 1024);
  CHECK(gpu.clock_mhz == 345);
  CHECK(gpu.max_clock_mhz == 1980);
  CHECK_FALSE(gpu.temperature_celsius.has_value());
  CHECK(*gpu.power_watts == Approx(75.5));
  CHECK(gpu.clock_reasons == std::vector<std::string>{"power_cap"});
  CHECK(gpu.mig == false);
  CHECK(gpu.persistence == true);
  REQUIRE(gpu.processes.size() == 2);
  CHECK(gpu.processes[0].memory_bytes == 1 << 20);
  CHECK_FALSE(gpu.processes[1].memory_bytes.has_value());
}

TEST_CASE("Without NVML a GPU is described from the driver alone") {
  const CudaApi cuda = MachineApi();
  const DriverReport report = ReportDriver(&cuda, absl::NotFoundError("no library"));
  REQUIRE(report.gpus.size() == 1);
  CHECK(report.gpus[0].name == "NVIDIA H200");
  CHECK_FALSE(report.gpus[0].clock_mhz.has_value());
}

TEST_CASE("A driver that cannot work says why") {
  CudaApi cuda = MachineApi();
  cuda.Init = [](unsigned) { return CUDA_ERROR_NO_DEVICE; };
  const DriverReport report = ReportDriver(&cuda, absl::NotFoundError("none"));
  CHECK(report.error == "cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected");
  CHECK(report.cuda_version == "13.0");
  CHECK(report.gpus.empty());
  CHECK(ReportDriver(absl::NotFoundError("libcuda.so.1: no such file"), absl::NotFoundError("none"))
            .error == "libcuda.so.1: no such file");
}

TEST_CASE("Counters are restricted to administrators by default") {
  CHECK_FALSE(ReportCounters("", "ffffffffffffffff").permitted);
  CHECK(ReportCounters("ResmanDebugLevel: 1\nRmProfilingAdminOnly: 0\n", "0").permitted);
  const std::string restricted = "RmProfilingAdminOnly: 1\n";
  CHECK_FALSE(ReportCounters(restricted, "0000000000000000").permitted);
  CHECK_THAT(ReportCounters(restricted, "0").reason, Catch::Contains("RmProfilingAdminOnly"));
  CHECK(ReportCounters(restricted, "000001ffffffffff").permitted);
  CHECK(ReportCounters(restricted, "0000000000200000").permitted);
}

TEST_CASE("The report is JSON whatever is missing") {
  const Json empty = Json::parse(ToJson(MachineReport()));
  CHECK(empty.at("gpus").empty());
  MachineReport report;
  report.driver.gpus.resize(1);
  report.driver.gpus[0].name = "bad \xff name";
  const Json json = Json::parse(ToJson(report));
  CHECK(json.at("gpus").at(0).at("clock_mhz").is_null());
  CHECK(json.at("gpus").at(0).at("name") == "bad \xef\xbf\xbd name");
}

TEST_CASE("The program describes this machine") {
  ChildOptions options;
  options.argv = {KERNELCAST_BIN_DIR "/kernelcast-cuda-probe"};
  // LeakSanitizer can crash on the thread-local storage of libraries that are loaded at run time.
  options.environment = {"ASAN_OPTIONS=intercept_tls_get_addr=0"};
  const auto child = ChildProcess::Spawn(options);
  REQUIRE(child.ok());
  const ChildExit exit = (*child)->Wait(30'000'000'000);
  INFO(exit.output);
  CHECK(exit.exited);
  CHECK(exit.exit_code == 0);
  const Json json = Json::parse(exit.output);
  CHECK(json.at("driver").at("found").is_boolean());
  if (json.at("nvrtc").at("found") == true) {
    const Json& architectures = json.at("nvrtc").at("architectures");
    CHECK(std::find(architectures.begin(), architectures.end(), "sm_90") != architectures.end());
  } else {
    CHECK_FALSE(json.at("nvrtc").at("error").get<std::string>().empty());
  }
}

}  // namespace
}  // namespace kernelcast::worker
