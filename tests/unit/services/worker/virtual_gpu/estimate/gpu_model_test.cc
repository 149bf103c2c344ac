#include "services/worker/virtual_gpu/estimate/gpu_model.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::worker::virtual_gpu {
namespace {

std::string Found(std::string_view device, std::string_view architecture) {
  const GpuModel* const model = FindGpuModel(device, architecture);
  return model != nullptr ? std::string(model->name) : "none";
}

TEST_CASE("A GPU's model is found by the device's name, else by the architecture") {
  CHECK(Found("NVIDIA H100 80GB HBM3", "sm_90a") == "NVIDIA H100");
  CHECK(Found("NVIDIA A100-SXM4-40GB", "") == "NVIDIA A100");
  // The name counts more.
  CHECK(Found("NVIDIA L40S", "sm_90") == "NVIDIA L40S");
  CHECK(Found("an unknown GPU", "sm_80") == "NVIDIA A100");
  CHECK(Found("", "sm_90a") == "NVIDIA H200");
  CHECK(Found("", "sm_89") == "NVIDIA L40S");
  CHECK(Found("NVIDIA", "sm_75") == "none");
  CHECK(Found("", "") == "none");
}

TEST_CASE("Times of an H200 become as many cycles of another clock") {
  CHECK(FindGpuModel("NVIDIA H200", "")->scaled_ns(100) == Approx(100));
  CHECK(FindGpuModel("NVIDIA A100", "")->scaled_ns(141) == Approx(198));
}

TEST_CASE("Every model has every rate and limit") {
  for (const GpuModel& model : AllGpuModels()) {
    INFO(model.name);
    for (const double value :
         {model.clock_hz, model.memory_bytes_per_second, model.l2_bytes, model.l2_bytes_per_second,
          model.l1_bytes, model.float32_lanes, model.float64_lanes, model.half_lanes,
          model.integer_lanes, model.special_lanes, model.conversion_lanes}) {
      CHECK(value > 0);
    }
    for (const double flops : model.matrix_flops) CHECK(flops > 0);
    CHECK(model.multiprocessors > 0);
    CHECK(model.max_warps >= model.max_blocks);
    CHECK(model.shared_bytes < static_cast<int64_t>(model.l1_bytes));
    CHECK(model.warp_matrix_share > 0);
    CHECK(model.warp_matrix_share <= 1);
  }
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
