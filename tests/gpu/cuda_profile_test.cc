#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/cuda/target/cuda_target.h"
#include "tests/gpu/gpu_fixture.h"

namespace kernelcast::testing {
namespace {

constexpr const char* kMapHead =
    "extern \"C\" __global__ void map(const float* x, float* y, long long n) {\n"
    "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i >= n) return;\n  const float from = x[i];\n  float v = 0;\n";
constexpr const char* kMapTail =
    "  for (int step = 0; step < 256; ++step) v = v * 0.99f + __fdividef(from, 2.0f + v * v);\n"
    "  y[i] = v;\n}\n";

GpuFixture& Map() {
  static GpuFixture fixture("tests/gpu/candidates/cuda_map", worker::CudaMeasureOptions());
  return fixture;
}

ShapeProfile ProfileOf(GpuFixture& fixture, const Candidate& candidate) {
  const worker::Profile profile = fixture.Profile(candidate);
  INFO(profile.unavailable_reason);
  REQUIRE(profile.unavailable_reason.empty());
  REQUIRE(profile.shapes.size() == 1);
  CHECK(profile.device_time_ns > 0);
  const ShapeProfile& shape = profile.shapes[0];
  std::printf("warm: events %.1f us, activity %.1f us; counters in %.0f ms\n",
              shape.warm_event_ns / 1000, shape.warm_activity_ns / 1000,
              1e-6 * static_cast<double>(profile.device_time_ns));
  for (const KernelActivity& kernel : shape.kernels) {
    std::printf("  kernel %s: %g per call, %.1f us, %u registers, %u + %u bytes shared\n",
                kernel.name.c_str(), kernel.launches, kernel.median_ns / 1000, kernel.registers,
                kernel.static_shared_bytes, kernel.dynamic_shared_bytes);
  }
  for (const auto& [name, value] : shape.counters) {
    std::printf("  %s %.6g\n", name.c_str(), value);
  }
  for (const StallReason& stall : shape.stall_reasons) {
    std::printf("  stall %s %.3f\n", stall.reason.c_str(), stall.share);
  }
  return shape;
}

double SpeedupOf(GpuFixture& fixture, const Candidate& candidate) {
  const Measurement measurement = fixture.Measure(candidate);
  INFO(MeasurementFeedback(measurement));
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  return ok->speedup.value;
}

TEST_CASE("A copy's profile shows the bytes it moves and a memory bound") {
  KERNELCAST_NEEDS_COUNTERS();
  const ShapeProfile profile = ProfileOf(
      CopyFixture(), ReferenceCandidate(CopyFixture().problem(), kCudaTargetName).value());
  const double bytes = 4.0 * 16777216;
  CHECK(profile.counters.at("dram_read_bytes") == Approx(bytes).epsilon(0.1));
  CHECK(profile.counters.at("dram_written_bytes") == Approx(bytes).epsilon(0.1));
  CHECK(profile.counters.at("dram_throughput_ratio") > 0.5);
  CHECK(profile.counters.at("dram_throughput_ratio") <= 1);
  CHECK(profile.counters.at("memory_throughput_ratio") >=
        0.99 * profile.counters.at("dram_throughput_ratio"));
  CHECK(profile.counters.at("tensor_pipe_ratio") < 0.01);
  CHECK(profile.counters.at("sm_throughput_ratio") < 0.5);
  REQUIRE_FALSE(profile.stall_reasons.empty());
  CHECK(profile.stall_reasons[0].reason == "long_scoreboard");
  CHECK(profile.stall_reasons[0].share > 0.5);
}

TEST_CASE("Durations from activity records agree with those from events") {
  KERNELCAST_NEEDS_COUNTERS();
  const ShapeProfile copy = ProfileOf(
      CopyFixture(), ReferenceCandidate(CopyFixture().problem(), kCudaTargetName).value());
  const ShapeProfile map = ProfileOf(Map(), Map().MakeCandidate(absl::StrCat(kMapHead, kMapTail)));
  for (const ShapeProfile& profile : {copy, map}) {
    // Events include the launch. Kernels that fill the memory queues are slower while traced: a
    // copy by 6% on an H200.
    CHECK(std::abs(profile.warm_event_ns - profile.warm_activity_ns) <
          3000 + 0.1 * profile.warm_activity_ns);
    REQUIRE(profile.kernels.size() == 1);
    CHECK(profile.kernels[0].median_ns == Approx(profile.warm_activity_ns).epsilon(0.01));
    CHECK(profile.kernels[0].registers >= 8);
    // Counters are collected per kernel with a cold cache.
    CHECK(profile.counters.at("kernel_ns") > 0.8 * profile.warm_activity_ns);
    CHECK(profile.counters.at("kernel_ns") < 1.5 * profile.warm_activity_ns);
  }
  CHECK(copy.kernels[0].name == "copy");
}

TEST_CASE("Every kernel launch of a call is counted") {
  KERNELCAST_NEEDS_COUNTERS();
  Candidate candidate = ReferenceCandidate(CopyFixture().problem(), kCudaTargetName).value();
  candidate.source =
      "extern \"C\" __global__ void touch(const float* x, float* w, long long n) {\n"
      "  __shared__ float kept[1024];\n"
      "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  kept[threadIdx.x] = i < n ? x[i] : 0;\n  __syncthreads();\n"
      "  if (i < n) w[i] = kept[threadIdx.x ^ 1];\n}\n"
      "extern \"C\" __global__ void copy(const float* x, float* y, long long n) {\n"
      "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < n) y[i] = x[i];\n}\n";
  Launch touch;
  touch.kernel = "touch";
  touch.grid = {"ceildiv(n, 1024)"};
  touch.block = {"1024"};
  touch.arguments = {"x", "workspace", "n"};
  Launch copy = touch;
  copy.kernel = "copy";
  copy.shared_memory_bytes = "2048";
  copy.arguments = {"x", "y", "n"};
  candidate.launches = {touch, touch, copy};
  candidate.workspace_bytes = "4 * n";
  candidate.candidate_id = CandidateId(candidate);
  const ShapeProfile profile = ProfileOf(CopyFixture(), candidate);
  REQUIRE(profile.kernels.size() == 2);
  CHECK(profile.kernels[0].name == "touch");
  CHECK(profile.kernels[0].launches == 2);
  CHECK(profile.kernels[0].static_shared_bytes == 4096);
  CHECK(profile.kernels[1].name == "copy");
  CHECK(profile.kernels[1].launches == 1);
  CHECK(profile.kernels[1].dynamic_shared_bytes == 2048);
  CHECK(profile.warm_activity_ns ==
        Approx(2 * profile.kernels[0].median_ns + profile.kernels[1].median_ns).epsilon(0.05));
  // The traffic of three copies, minus what the cache absorbed.
  CHECK(profile.counters.at("dram_written_bytes") > 2 * 4.0 * 16777216);
  CHECK(profile.counters.at("dram_written_bytes") < 3.3 * 4.0 * 16777216);
}

TEST_CASE("Occupancy reaches the compiler's limit when there is enough work") {
  KERNELCAST_NEEDS_COUNTERS();
  Candidate candidate = Map().MakeCandidate(absl::StrCat(kMapHead, kMapTail));
  candidate.launches[0].shared_memory_bytes = "65536";
  candidate.candidate_id = CandidateId(candidate);
  const worker::CancelToken cancel;
  const auto compiled = Map().target().Compile({Map().problem(), &candidate}, cancel);
  REQUIRE(compiled.ok());
  const CompileFacts& facts = std::get<worker::CompileSuccess>(compiled->result).facts;
  const auto& names = FindFactSchema(facts.schema).value()->names;
  const auto at = std::find(names.begin(), names.end(), "launch_occupancy") - names.begin();
  const double allowed = facts.values[static_cast<size_t>(at)];
  REQUIRE(allowed > 0);
  REQUIRE(allowed < 0.6);
  const ShapeProfile profile = ProfileOf(Map(), candidate);
  CHECK(profile.counters.at("achieved_occupancy_ratio") < 1.02 * allowed);
  CHECK(profile.counters.at("achieved_occupancy_ratio") > 0.75 * allowed);
  CHECK(profile.counters.at("sm_throughput_ratio") > 0.4);
  CHECK(profile.counters.at("instructions") > 1048576.0 / 32 * 256);
}

TEST_CASE("Tensor core activity is detected") {
  KERNELCAST_NEEDS_COUNTERS();
  // A profiler does not check the result.
  const std::string source =
      "extern \"C\" __global__ void map(const float* x, float* y, long long n) {\n"
      "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i >= n) return;\n  float c0 = x[i], c1 = 0, c2 = 0, c3 = 0;\n"
      "  for (int step = 0; step < 256; ++step)\n"
      "    asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 \"\n"
      "                 \"{%0,%1,%2,%3},{%4,%4,%4,%4},{%4,%4},{%0,%1,%2,%3};\"\n"
      "                 : \"+f\"(c0), \"+f\"(c1), \"+f\"(c2), \"+f\"(c3) : \"r\"(1));\n"
      "  y[i] = c0 + c1 + c2 + c3;\n}\n";
  const ShapeProfile profile = ProfileOf(Map(), Map().MakeCandidate(source));
  CHECK(profile.counters.at("tensor_pipe_ratio") > 0.5);
}

TEST_CASE("Profiling does not change the next candidate's time") {
  KERNELCAST_NEEDS_COUNTERS();
  const Candidate candidate = Map().MakeCandidate(absl::StrCat(kMapHead, kMapTail));
  const double before = SpeedupOf(Map(), candidate);
  ProfileOf(Map(), candidate);
  CHECK(SpeedupOf(Map(), candidate) == Approx(before).epsilon(0.02));
}

TEST_CASE("A kernel that crashes under the profiler loses only its profile") {
  KERNELCAST_NEEDS_COUNTERS();
  const Candidate good = Map().MakeCandidate(absl::StrCat(kMapHead, kMapTail));
  const double before = SpeedupOf(Map(), good);
  const worker::Profile profile = Map().Profile(
      Map().MakeCandidate(absl::StrCat(kMapHead, "  if (i > 5) __trap();\n", kMapTail)));
  CHECK_FALSE(profile.unavailable_reason.empty());
  std::printf("a trap: %s\n", profile.unavailable_reason.c_str());
  CHECK(SpeedupOf(Map(), good) == Approx(before).epsilon(0.02));
}

}  // namespace
}  // namespace kernelcast::testing
