#include "services/worker/cuda/judge/device_peaks.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/text.h"
#include "services/worker/core/roofline.h"

namespace kernelcast::worker {
namespace {

constexpr size_t kCopyBytes = size_t{256} << 20;
constexpr int kCopies = 8;

// Dense multiply-adds per clock cycle of one multiprocessor. 0: the type has no hardware of its
// own, or its rate is not published. float16, bfloat16, tf32, float8 and int8 are tensor core
// rates.
struct Rates {
  int capability;  // major * 10 + minor
  int float64;
  int float32;
  int tf32;
  int float16;
  int bfloat16;
  int float8;
  int int8;
  int int32;
};
// Source: NVIDIA, CUDA C++ Programming Guide (arithmetic instructions) and the architectures' white
// papers.
constexpr Rates kRates[] = {
    {70, 32, 64, 0, 512, 0, 0, 0, 64},
    {75, 2, 64, 0, 512, 0, 0, 1024, 64},
    {80, 64, 64, 512, 1024, 1024, 0, 2048, 64},
    {86, 2, 128, 128, 512, 512, 0, 1024, 64},
    {87, 2, 128, 128, 512, 512, 0, 1024, 64},
    {89, 2, 128, 128, 512, 512, 1024, 1024, 64},
    {90, 128, 128, 1024, 2048, 2048, 4096, 4096, 64},
    {100, 64, 128, 1024, 4096, 4096, 8192, 8192, 64},
    {120, 2, 128, 128, 512, 512, 1024, 1024, 64},
};

std::string MegahertzText(double hz) { return NumberText(hz / 1e6, 4) + " MHz"; }

}  // namespace

absl::StatusOr<DeviceClocks> ReadClocks(const CudaApi& api, CUdevice device) {
  DeviceClocks clocks;
  int clock_khz = 0;
  int memory_clock_khz = 0;
  for (const auto& [attribute, to] :
       {std::pair{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &clocks.major},
        std::pair{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &clocks.minor},
        std::pair{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &clocks.multiprocessors},
        std::pair{CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &clock_khz},
        std::pair{CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &memory_clock_khz},
        std::pair{CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &clocks.memory_bus_bits}}) {
    KC_RETURN_IF_ERROR(CudaStatus(api, api.DeviceGetAttribute(to, attribute, device),
                                  "asking for clocks and widths"));
  }
  clocks.clock_hz = 1e3 * clock_khz;
  clocks.memory_clock_hz = 1e3 * memory_clock_khz;
  return clocks;
}

void FillClocks(const DeviceMonitor& monitor, DeviceClocks& clocks) {
  if (clocks.clock_hz <= 0) clocks.clock_hz = monitor.MaxClockHz(nvml::kClockSm);
  if (clocks.memory_clock_hz <= 0) clocks.memory_clock_hz = monitor.MaxClockHz(nvml::kClockMemory);
}

std::vector<DevicePeak> PeaksOf(const DeviceClocks& clocks) {
  std::vector<DevicePeak> peaks;
  // Data moves on both clock edges.
  const double bytes = 2 * clocks.memory_clock_hz * clocks.memory_bus_bits / 8;
  if (bytes > 0) {
    peaks.push_back({.name = std::string(kMemoryPeak),
                     .per_second = bytes,
                     .source = PeakSource::kAttributes,
                     .detail = absl::StrCat("2 x ", MegahertzText(clocks.memory_clock_hz), " x ",
                                            clocks.memory_bus_bits, " bits")});
  }
  const int capability = 10 * clocks.major + clocks.minor;
  const Rates* rates = nullptr;
  for (const Rates& row : kRates) {
    // A minor version that is not listed uses the previous one of the same major version.
    if (row.capability <= capability && row.capability / 10 == clocks.major) rates = &row;
  }
  if (rates == nullptr || clocks.clock_hz <= 0) return peaks;
  const std::pair<const char*, int> by_type[] = {
      {"float64", rates->float64},    {"float32", rates->float32},   {"tf32", rates->tf32},
      {"float16", rates->float16},    {"bfloat16", rates->bfloat16}, {"float8_e4m3", rates->float8},
      {"float8_e5m2", rates->float8}, {"int8", rates->int8},         {"int32", rates->int32}};
  for (const auto& [name, rate] : by_type) {
    if (rate == 0) continue;
    peaks.push_back(
        {.name = name,
         .per_second = 2.0 * rate * clocks.multiprocessors * clocks.clock_hz,
         .source = PeakSource::kTable,
         .detail = absl::StrCat(clocks.multiprocessors, " multiprocessors x ",
                                MegahertzText(clocks.clock_hz), " x ", rate, " multiply-adds")});
  }
  return peaks;
}

absl::StatusOr<DevicePeak> MeasureCopy(CudaDevice& device, TimingLease& lease,
                                       const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(const TimingLease::Held held, lease.Acquire(cancel));
  const CudaApi& api = device.api();
  KC_RETURN_IF_ERROR(device.Bind());
  KC_ASSIGN_OR_RETURN(const DeviceBuffer from, DeviceBuffer::Allocate(device, kCopyBytes));
  KC_ASSIGN_OR_RETURN(const DeviceBuffer to, DeviceBuffer::Allocate(device, kCopyBytes));
  struct Events {
    const CudaApi& api;
    std::array<CUevent, kCopies + 1> events{};
    ~Events() {
      for (const CUevent event : events) {
        if (event != nullptr) api.EventDestroy(event);
      }
    }
  } made{api};
  // Fill with arbitrary bits; zeros might be compressed.
  KC_RETURN_IF_ERROR(
      device.Check(api.MemsetD32Async(from.address(), 0x9e3779b9u, kCopyBytes / 4, device.stream()),
                   "filling memory"));
  for (CUevent& event : made.events) {
    KC_RETURN_IF_ERROR(device.Check(api.EventCreate(&event, CU_EVENT_DEFAULT), "making an event"));
  }
  for (size_t i = 0; i < made.events.size(); ++i) {
    if (i > 0) {
      KC_RETURN_IF_ERROR(
          device.Copy(to.address(), from.address(), kCopyBytes, "copying on the device"));
    }
    KC_RETURN_IF_ERROR(
        device.Check(api.EventRecord(made.events[i], device.stream()), "recording an event"));
  }
  KC_RETURN_IF_ERROR(device.Synchronize());
  float best_ms = 0;
  // Skip the first copy, which wakes the device.
  for (size_t i = 2; i < made.events.size(); ++i) {
    float ms = 0;
    KC_RETURN_IF_ERROR(device.Check(api.EventElapsedTime(&ms, made.events[i - 1], made.events[i]),
                                    "reading an event"));
    if (ms > 0 && (best_ms == 0 || ms < best_ms)) best_ms = ms;
  }
  if (best_ms <= 0) return absl::UnavailableError("a copy on the device took no time");
  return DevicePeak{.name = "memory_copy",
                    .per_second = 2e3 * static_cast<double>(kCopyBytes) / best_ms,
                    .source = PeakSource::kMeasured,
                    .detail = "copy of 256 MiB on the device, read and written"};
}

}  // namespace kernelcast::worker
