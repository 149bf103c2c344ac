#include "tests/fakes/cuda/fake_nvml.h"

namespace kernelcast::testing {

namespace nvml = worker::nvml;

FakeNvml& FakeNvml::Instance() {
  static auto* const instance = new FakeNvml;
  return *instance;
}

const worker::NvmlApi& FakeNvml::Api() {
  static const auto* const api = [] {
    auto* const table = new worker::NvmlApi;
    table->DeviceGetHandleByUuid = [](const char*, nvml::DeviceHandle* device) -> nvml::Return {
      *device = nullptr;
      return Instance().knows_device ? nvml::kSuccess : nvml::kNotFound;
    };
    table->DeviceGetClockInfo = [](nvml::DeviceHandle, int, unsigned int* mhz) -> nvml::Return {
      *mhz = Instance().clock_mhz();
      return *mhz > 0 ? nvml::kSuccess : nvml::kNotSupported;
    };
    table->DeviceGetMaxClockInfo = [](nvml::DeviceHandle, int clock,
                                      unsigned int* mhz) -> nvml::Return {
      *mhz =
          clock == nvml::kClockMemory ? Instance().max_memory_clock_mhz : Instance().max_clock_mhz;
      return *mhz > 0 ? nvml::kSuccess : nvml::kNotSupported;
    };
    table->DeviceGetClocksEventReasons = [](nvml::DeviceHandle,
                                            unsigned long long* bits) -> nvml::Return {
      *bits = Instance().reasons;
      return nvml::kSuccess;
    };
    table->DeviceGetTemperature = [](nvml::DeviceHandle, int,
                                     unsigned int* celsius) -> nvml::Return {
      *celsius = 40;
      return nvml::kSuccess;
    };
    table->DeviceGetPowerUsage = [](nvml::DeviceHandle, unsigned int* milliwatts) -> nvml::Return {
      *milliwatts = 250'000;
      return nvml::kSuccess;
    };
    return table;
  }();
  return *api;
}

}  // namespace kernelcast::testing
