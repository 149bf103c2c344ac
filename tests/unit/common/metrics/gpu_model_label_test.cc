#include "common/metrics/gpu_model_label.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

namespace kernelcast {
namespace {

TEST_CASE("A GPU model is parsed from the driver's name", "[metrics]") {
  CHECK(GpuModelLabel("cuda", "NVIDIA H200") == "h200");
  CHECK(GpuModelLabel("cuda", "NVIDIA A100-SXM4-80GB") == "a100");
  CHECK(GpuModelLabel("cuda", "NVIDIA H100 80GB HBM3") == "h100");
  CHECK(GpuModelLabel("cuda", "NVIDIA L40S") == "l40s");
  CHECK(GpuModelLabel("cuda", "Tesla T4") == "t4");
  CHECK(GpuModelLabel("cuda", "NVIDIA GH200 480GB") == "gh200");
}

TEST_CASE("Unknown models map into the list of labels", "[metrics]") {
  CHECK(GpuModelLabel("cuda", "") == "cuda");
  CHECK(GpuModelLabel("cuda", "NVIDIA GeForce RTX 3080") == "cuda");
  CHECK(GpuModelLabel("cuda", "some other cpu") == "cuda");
  CHECK(GpuModelLabel("cpu", "AMD EPYC L4 H100") == "cpu");
  CHECK(GpuModelLabel("h100", "") == "h100");
  CHECK(GpuModelLabel("abacus", "NVIDIA H200") == "other");
  CHECK(GpuModelLabel("", "") == "other");
  for (const std::string_view model : kGpuModelLabels) {
    CHECK(GpuModelLabel(model, "") == model);
    CHECK(std::count(kGpuModelLabels.begin(), kGpuModelLabels.end(), model) == 1);
  }
}

}  // namespace
}  // namespace kernelcast
