#include "services/worker/cuda/judge/device_peaks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "common/base/clock.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/fake_nvml.h"
#include "tests/support/services.h"
#include "tests/unit/services/worker/cuda/judge/judge_fixture.h"

namespace kernelcast::worker {
namespace {

using testing::FakeCuda;
using testing::FakeNvml;

double PerSecond(const std::vector<DevicePeak>& peaks, const std::string& name) {
  const auto found = std::find_if(peaks.begin(), peaks.end(),
                                  [&](const DevicePeak& peak) { return peak.name == name; });
  return found == peaks.end() ? 0 : found->per_second;
}

TEST_CASE("Peaks follow from clocks and widths") {
  // An H200.
  const DeviceClocks clocks{.major = 9,
                            .minor = 0,
                            .multiprocessors = 132,
                            .clock_hz = 1.98e9,
                            .memory_clock_hz = 3.201e9,
                            .memory_bus_bits = 6144};
  const std::vector<DevicePeak> peaks = PeaksOf(clocks);
  CHECK(PerSecond(peaks, "memory") == Approx(4.917e12).epsilon(1e-3));
  CHECK(PerSecond(peaks, "float32") == Approx(66.9e12).epsilon(1e-3));
  CHECK(PerSecond(peaks, "bfloat16") == Approx(1070.5e12).epsilon(1e-3));
  DeviceClocks unknown = clocks;
  unknown.major = 3;
  CHECK(PeaksOf(unknown).size() == 1);
  CHECK(PeaksOf({}).empty());
}

TEST_CASE("Clocks that the driver omits are the highest that NVML reports") {
  FakeNvml::Instance() = FakeNvml();
  const DeviceMonitor monitor(&FakeNvml::Api(), "GPU-1");
  DeviceClocks clocks;
  FillClocks(monitor, clocks);
  CHECK(clocks.clock_hz == Approx(2.0e9));
  CHECK(clocks.memory_clock_hz == Approx(3.2e9));
  clocks = {.clock_hz = 1e9, .memory_clock_hz = 1.5e9};
  FillClocks(monitor, clocks);
  CHECK(clocks.clock_hz == Approx(1e9));
  CHECK(clocks.memory_clock_hz == Approx(1.5e9));

  FakeNvml::Instance().max_clock_mhz = 0;
  clocks = {};
  FillClocks(monitor, clocks);
  FillClocks(DeviceMonitor(nullptr, "GPU-1"), clocks);
  CHECK(clocks.clock_hz == 0);
}

TEST_CASE("The device copy waits for the timing lease") {
  testing::FakeJudge judge;
  const testing::TemporaryFolder folder("device-peaks");
  const auto ours = TimingLease::Open(folder.File("lease")).value();
  const auto others = TimingLease::Open(folder.File("lease")).value();
  {
    const auto held = others->Acquire(CancelToken()).value();
    CHECK(absl::IsDeadlineExceeded(
        MeasureCopy(judge.device(), *ours, CancelToken(Clock::Real().MonotonicNs() + 1)).status()));
    CHECK(FakeCuda::Instance().calls("MemAlloc") == 0);
  }
  FakeCuda::Instance().Inject("MemAlloc", 1, FakeCuda::Effect::kFailOnce, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(absl::IsResourceExhausted(MeasureCopy(judge.device(), *ours, CancelToken()).status()));
  CHECK(others->Acquire(CancelToken(Clock::Real().MonotonicNs() + 1'000'000'000)).ok());
}

}  // namespace
}  // namespace kernelcast::worker
