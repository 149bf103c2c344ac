// Kernels that read uninitialised memory are wrong on the device, whatever it held before; and the
// peaks that the device reports.

#include "services/worker/cuda/judge/hostile_memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "services/worker/cuda/judge/device.h"
#include "services/worker/cuda/judge/device_peaks.h"
#include "services/worker/cuda/judge/runner_client.h"
#include "tests/gpu/gpu_fixture.h"

namespace kernelcast::worker {
namespace {

using testing::GpuFixture;

constexpr int kFills = 200;

// Softmax of a row by a block of 256 threads. MAXIMUM computes the row's maximum from `mine`, a
// thread's own value; any value that is not too large works, because it cancels.
constexpr const char* kSoftmax = R"cuda(
__device__ float WarpMax(float v) {
  for (int s = 16; s > 0; s /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, s));
  return v;
}
extern "C" __global__ void row_softmax(const float* x, float* y, COLS_TYPE cols) {
  __shared__ float maxima[64];
  __shared__ float sums[8];
  const float* row = x + (long long)blockIdx.x * cols;
  float mine = row[0];
  for (long long i = threadIdx.x; i < cols; i += 256) mine = fmaxf(mine, row[i]);
  const int warp = threadIdx.x / 32;
  float largest = WarpMax(mine);
  MAXIMUM
  float sum = 0;
  for (long long i = threadIdx.x; i < cols; i += 256) sum += expf(row[i] - largest);
  for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(~0u, sum, s);
  if (threadIdx.x % 32 == 0) sums[warp] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < 8; ++w) sum += sums[w];
  for (long long i = threadIdx.x; i < cols; i += 256) {
    y[(long long)blockIdx.x * cols + i] = expf(row[i] - largest) / sum;
  }
}
)cuda";

constexpr const char* kRight =
    "if (threadIdx.x % 32 == 0) maxima[warp] = largest; __syncthreads(); "
    "for (int w = 0; w < 8; ++w) largest = fmaxf(largest, maxima[w]);";
constexpr const char* kNoBarrier =
    "if (threadIdx.x % 32 == 0) ((volatile float*)maxima)[warp] = largest; "
    "for (int w = 0; w < 8; ++w) largest = fmaxf(largest, ((volatile float*)maxima)[w]);";
constexpr const char* kUnwrittenShared =
    "if (threadIdx.x % 32 == 0) maxima[warp] = largest; __syncthreads(); "
    "for (int w = 0; w < 64; ++w) largest = fmaxf(largest, ((volatile float*)maxima)[w]);";
// The compiler does not know the order of the elements, so it cannot keep them in registers.
constexpr const char* kUnwrittenLocal =
    "if (threadIdx.x % 32 == 0) maxima[warp] = largest; __syncthreads(); "
    "float local[32]; const int step = (int)cols | 1; "
    "for (int w = 0; w < 8; ++w) local[(w * step) & 31] = maxima[w]; "
    "for (int w = 0; w < 32; ++w) largest = fmaxf(largest, local[(w * step) & 31]);";

Candidate Softmax(GpuFixture& fixture, const std::string& maximum,
                  const std::string& cols_type = "long long", const std::string& cols = "cols") {
  Launch launch;
  launch.kernel = "row_softmax";
  launch.grid = {"rows"};
  launch.block = {"256"};
  launch.arguments = {"x", "y", cols};
  return fixture.MakeCandidate(kSoftmax, {{"MAXIMUM", maximum}, {"COLS_TYPE", cols_type}},
                               {launch});
}

Measurement Measure(GpuFixture& fixture, const std::string& maximum,
                    const std::string& cols_type = "long long", const std::string& cols = "cols") {
  return fixture.Measure(Softmax(fixture, maximum, cols_type, cols));
}

double StackBytes(GpuFixture& fixture, const Candidate& candidate) {
  const auto compiled = fixture.target().Compile({fixture.problem(), &candidate}, CancelToken());
  REQUIRE(compiled.ok());
  const CompileFacts& facts = std::get<CompileSuccess>(compiled->result).facts;
  const auto names = (*FindFactSchema(facts.schema))->names;
  const auto at = std::ranges::find(names, "stack_bytes");
  REQUIRE(at != names.end());
  return facts.values.at(static_cast<size_t>(at - names.begin()));
}

TEST_CASE("Kernels that read uninitialised memory are wrong") {
  KERNELCAST_NEEDS_GPU();
  GpuFixture fixture("examples/problems/row_softmax", CudaMeasureOptions());
  for (const auto& [name, maximum] : {std::pair{"without a barrier", kNoBarrier},
                                      std::pair{"unwritten shared memory", kUnwrittenShared},
                                      std::pair{"unwritten local memory", kUnwrittenLocal}}) {
    if (std::string_view(maximum) == kUnwrittenLocal) {
      CHECK(StackBytes(fixture, Softmax(fixture, maximum)) >= 32 * sizeof(float));
    }
    const Measurement measurement = Measure(fixture, maximum);
    const std::string text = MeasurementFeedback(measurement);
    std::printf("%s: %s\n", name, text.c_str());
    CAPTURE(name, text);
    CHECK(std::holds_alternative<WrongResult>(measurement.outcome));
  }
  const Measurement right = Measure(fixture, kRight);
  INFO(MeasurementFeedback(right));
  REQUIRE(std::holds_alternative<MeasuredOk>(right.outcome));
  const auto& shape = std::get<MeasuredOk>(right.outcome).shapes[0];
  REQUIRE(shape.roofline.has_value());
  CHECK(shape.roofline->ratio > 1);
  CHECK(shape.implausible_below_ns < shape.roofline->time_ns);
  std::printf("right: %s\n", MeasurementFeedback(right).c_str());
}

TEST_CASE("An axis is passed with the type that the launch declares") {
  KERNELCAST_NEEDS_GPU();
  GpuFixture fixture("examples/problems/row_softmax", CudaMeasureOptions());
  const Measurement as_int = Measure(fixture, kRight, "int", "cols:int");
  INFO(MeasurementFeedback(as_int));
  CHECK(std::holds_alternative<MeasuredOk>(as_int.outcome));
  std::printf("int: %s\n", MeasurementFeedback(as_int).c_str());
}

TEST_CASE("A fault reports the case in which it happened") {
  KERNELCAST_NEEDS_GPU();
  GpuFixture fixture("examples/problems/row_softmax", CudaMeasureOptions());
  const Measurement measurement = Measure(fixture, "if (cols == 129) *(volatile int*)16 = 1;");
  const std::string text = MeasurementFeedback(measurement);
  std::printf("fault: %s\n", text.c_str());
  INFO(text);
  REQUIRE(std::holds_alternative<Crash>(measurement.outcome));
  const auto& crash = std::get<Crash>(measurement.outcome);
  CHECK(crash.stage == "check");
  REQUIRE(crash.shape.count("cols") == 1);
  CHECK(crash.shape.at("cols") == 129);
}

TEST_CASE("Filling memory takes tens of microseconds") {
  KERNELCAST_NEEDS_GPU();
  GpuFixture fixture("examples/problems/row_softmax", CudaMeasureOptions());
  Launch launch;
  launch.kernel = HostileKernelNames()[1];
  launch.grid = {"1"};
  launch.block = {"32"};
  launch.arguments = {"1:uint32", "64:uint32"};
  Candidate candidate = fixture.MakeCandidate(std::string(HostileKernelsSource()), {}, {launch});
  const auto compiled = fixture.target().Compile({fixture.problem(), &candidate}, CancelToken());
  REQUIRE(compiled.ok());
  REQUIRE(std::holds_alternative<CompileSuccess>(compiled->result));
  const auto api = LoadCudaApi();
  REQUIRE(api.ok());
  const auto device = CudaDevice::Open(**api);
  REQUIRE(device.ok());
  CudaRunnerOptions options;
  options.path = testing::ProgramFolder() + "/kernelcast-cuda-runner";
  const CancelToken cancel;
  const auto runner = CudaRunner::Start(options, cancel);
  REQUIRE(runner.ok());
  HostileMemory hostile(**device, std::get<CompileSuccess>(compiled->result).artifact.content);
  REQUIRE(hostile.Attach(**runner, cancel).ok());
  REQUIRE(hostile.ResetCount().ok());
  REQUIRE((*device)->Synchronize().ok());
  std::vector<cuda_runner::RunRecord> runs;
  for (int i = 0; i < kFills; ++i) {
    runs.push_back(HostileMemory::Fill(i % 2 == 0 ? HostileMemory::kFinite : HostileMemory::kNan));
  }
  for (int round = 0; round < 3; ++round) {
    const CudaRunner::Answer answer = (*runner)->Run(runs, 10'000'000'000, cancel);
    REQUIRE(answer.ok());
    const double us = 1e-3 * static_cast<double>(answer.reply.wall_ns) / kFills;
    std::printf("a fill takes %.1f us\n", us);
    if (round > 0) CHECK(us < 100);
  }
  CHECK(*hostile.Count() == 3 * kFills);
}

TEST_CASE("The device's peaks agree with a measured copy") {
  KERNELCAST_NEEDS_GPU();
  GpuFixture fixture("examples/problems/row_softmax", CudaMeasureOptions());
  double memory = 0;
  double copy = 0;
  for (const DevicePeak& peak : fixture.target().Describe().peaks) {
    std::printf("peak %s: %.4g per second, %s: %s\n", peak.name.c_str(), peak.per_second,
                std::string(Name(peak.source)).c_str(), peak.detail.c_str());
    if (peak.name == "memory") memory = peak.per_second;
    if (peak.name == "memory_copy") copy = peak.per_second;
  }
  CHECK(copy > 0.5 * memory);
  CHECK(copy < 1.02 * memory);
}

}  // namespace
}  // namespace kernelcast::worker
