#include "common/metrics/gpu_model.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

namespace kernelcast {
namespace {

TEST_CASE("A GPU model is parsed from the driver's name", "[metrics]") {
  CHECK(GpuModelOf("cuda", "NVIDIA H200") == "h200");
  CHECK(GpuModelOf("cuda", "NVIDIA A100-SXM4-80GB") == "a100");
  CHECK(GpuModelOf("cuda", "NVIDIA H100 80GB HBM3") == "h100");
  CHECK(GpuModelOf("cuda", "NVIDIA L40S") == "l40s");
  CHECK(GpuModelOf("cuda", "Tesla T4") == "t4");
  CHECK(GpuModelOf("cuda", "NVIDIA GH200 480GB") == "gh200");
}

TEST_CASE("Unknown models map into the list of labels", "[metrics]") {
  CHECK(GpuModelOf("cuda", "") == "cuda");
  CHECK(GpuModelOf("cuda", "NVIDIA GeForce RTX 3080") == "cuda");
  CHECK(GpuModelOf("cuda", "some other cpu") == "cuda");
  CHECK(GpuModelOf("cpu", "AMD EPYC L4 H100") == "cpu");
  CHECK(GpuModelOf("h100", "") == "h100");
  CHECK(GpuModelOf("abacus", "NVIDIA H200") == "other");
  CHECK(GpuModelOf("", "") == "other");
  for (const std::string_view model : kGpuModels) {
    CHECK(GpuModelOf(model, "") == model);
    CHECK(std::count(kGpuModels.begin(), kGpuModels.end(), model) == 1);
  }
}

}  // namespace
}  // namespace kernelcast
