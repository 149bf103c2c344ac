#include "services/worker/core/roofline.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/domain/measurement_check.h"

namespace kernelcast::worker {
namespace {

const std::vector<DevicePeak> kPeaks = {
    {.name = "memory", .per_second = 100e9, .working_set_bytes = 1 << 15},
    {.name = "memory", .per_second = 40e9, .working_set_bytes = 1 << 20},
    {.name = "memory", .per_second = 10e9},
    {.name = "float32", .per_second = 50e9},
    {.name = "bfloat16", .per_second = 800e9}};

TEST_CASE("The memory peak is that of the smallest cache that holds the working set") {
  CHECK(MemoryPeak(kPeaks, 1000)->per_second == 100e9);
  CHECK(MemoryPeak(kPeaks, 100'000)->per_second == 40e9);
  CHECK(MemoryPeak(kPeaks, 1e9)->per_second == 10e9);
  CHECK(MemoryPeak({}, 1) == nullptr);
}

TEST_CASE("The roofline is the slower of memory and arithmetic") {
  const auto memory = RooflineOf(kPeaks, "float32", 1e9, 1e9, 200e6, 400e6);
  REQUIRE(memory.has_value());
  CHECK(memory->time_ns == Approx(100e6));
  CHECK(memory->bound == Roofline::Bound::kMemory);
  CHECK(memory->peak == "memory");
  CHECK(memory->ratio == Approx(2));
  CHECK(memory->score == Approx(0.75));
  const auto compute = RooflineOf(kPeaks, "float32", 1e9, 1e10, 300e6, 400e6);
  REQUIRE(compute.has_value());
  CHECK(compute->time_ns == Approx(200e6));
  CHECK(compute->bound == Roofline::Bound::kCompute);
  CHECK(compute->peak == "float32");
  // The same work in a narrower type.
  CHECK(RooflineOf(kPeaks, "bfloat16", 1e9, 1e10, 300e6, 400e6)->time_ns == Approx(100e6));
}

TEST_CASE("Without figures or peaks there is no roofline") {
  CHECK_FALSE(RooflineOf(kPeaks, "float32", 0, 0, 1, 1).has_value());
  CHECK_FALSE(RooflineOf({}, "float32", 1e9, 1e9, 1, 1).has_value());
  CHECK_FALSE(RooflineOf(kPeaks, "float16", 0, 1e9, 1, 1).has_value());
  CHECK(RooflineOf(kPeaks, "float16", 1e9, 1e9, 1, 1)->bound == Roofline::Bound::kMemory);
}

TEST_CASE("Times and ratios are possible for any declared work") {
  for (const double amount : {1e-310, 1e-300, 1e-9, 1.0, 1e18, 1e300, 1.7e308}) {
    INFO(amount);
    for (const bool bytes : {false, true}) {
      const auto roofline =
          RooflineOf(kPeaks, "float32", bytes ? amount : 0, bytes ? 0 : amount, 1e9, 2e9);
      if (!roofline.has_value()) continue;
      CHECK(roofline->time_ns <= kMaxTimeNs);
      CHECK(std::isfinite(roofline->ratio));
      CHECK(std::isfinite(roofline->score));
    }
    MeasureOptions options;
    options.peaks = kPeaks;
    CHECK(ImplausibleBelowNs(options, amount) <= kMaxTimeNs);
  }
}

TEST_CASE("The score is one half for the reference and one at the speed of light") {
  CHECK(SpeedOfLightScore(400, 400, 100) == Approx(0.5));
  CHECK(SpeedOfLightScore(100, 400, 100) == 1);
  CHECK(SpeedOfLightScore(50, 400, 100) == 1);
  CHECK(SpeedOfLightScore(1300, 400, 100) == Approx(0.2));
  // A reference at the speed of light.
  CHECK(SpeedOfLightScore(120, 100, 100) == 0);
  CHECK(SpeedOfLightScore(90, 90, 100) == 1);
  double last = 1;
  for (double ns = 100; ns < 1e6; ns *= 1.1) {
    const double score = SpeedOfLightScore(ns, 400, 100);
    CHECK(score <= last);
    CHECK(score >= 0);
    last = score;
  }
}

TEST_CASE("The implausibility limit lies well below the roofline") {
  MeasureOptions options;
  options.peaks = kPeaks;
  // The fastest memory, times the factor.
  CHECK(ImplausibleBelowNs(options, 1e9) == Approx(1e9 * 1e9 / (100e9 * 8)));
  options.peaks.clear();
  CHECK(ImplausibleBelowNs(options, 1.5e12) == Approx(1e9));
  CHECK(ImplausibleBelowNs(CudaMeasureOptions(), 9e12) == Approx(1e9));
}

TEST_CASE("Arithmetic is bounded by the narrowest real input") {
  Problem problem;
  problem.inputs.resize(2);
  problem.inputs[0].dtype = DataType::kInt32;
  problem.inputs[1].dtype = DataType::kInt8;
  CHECK(ComputePeak(problem) == "int32");
  problem.inputs[0].dtype = DataType::kFloat32;
  CHECK(ComputePeak(problem) == "float32");
  problem.inputs[1].dtype = DataType::kBfloat16;
  CHECK(ComputePeak(problem) == "bfloat16");
}

}  // namespace
}  // namespace kernelcast::worker
