#include "services/worker/cuda/api/nvrtc_api.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace kernelcast::worker {
namespace {

TEST_CASE("The toolkit's compiler loads from its folder and compiles") {
  const auto toolkit = FindCudaToolkit({KERNELCAST_CUDA_HOME});
  INFO(toolkit.status().ToString());
  if (!toolkit.ok()) {
    WARN("no NVRTC next to the headers of this build: nothing is tested");
    return;
  }
  const auto api = LoadNvrtcApi(*toolkit);
  INFO(api.status().ToString());
  REQUIRE(api.ok());
  CHECK_THAT(api->path, Catch::Contains("libnvrtc"));
  int major = 0;
  int minor = 0;
  REQUIRE(api->Version(&major, &minor) == NVRTC_SUCCESS);
  CHECK(major >= 12);
  int count = 0;
  REQUIRE(api->GetNumSupportedArchs(&count) == NVRTC_SUCCESS);
  std::vector<int> architectures(static_cast<size_t>(count));
  REQUIRE(api->GetSupportedArchs(architectures.data()) == NVRTC_SUCCESS);
  CHECK(std::count(architectures.begin(), architectures.end(), 90) == 1);

  nvrtcProgram program = nullptr;
  REQUIRE(api->CreateProgram(&program, "extern \"C\" __global__ void k(int* p) { *p = 7; }", "k.cu",
                             0, nullptr, nullptr) == NVRTC_SUCCESS);
  const char* options[] = {"-arch=sm_90"};
  CHECK(api->CompileProgram(program, 1, options) == NVRTC_SUCCESS);
  size_t cubin_bytes = 0;
  size_t ptx_bytes = 0;
  CHECK(api->GetCubinSize(program, &cubin_bytes) == NVRTC_SUCCESS);
  CHECK(api->GetPtxSize(program, &ptx_bytes) == NVRTC_SUCCESS);
  CHECK(cubin_bytes > 500);
  CHECK(ptx_bytes > 100);
  api->DestroyProgram(&program);
}

TEST_CASE("A missing library is named") {
  CudaToolkit nowhere;
  nowhere.nvrtc_library = "/nonexistent/libnvrtc.so.13";
  nowhere.nvrtc_builtins = "/nonexistent/libnvrtc-builtins.so.13.0";
  const auto api = LoadNvrtcApi(nowhere);
  REQUIRE(absl::IsNotFound(api.status()));
  CHECK_THAT(std::string(api.status().message()),
             Catch::Contains("/nonexistent/libnvrtc-builtins.so.13.0"));
}

TEST_CASE("A compiler that lacks functions is refused") {
  const auto api = FillNvrtcApi([](const char*) -> void* { return nullptr; });
  REQUIRE(absl::IsUnimplemented(api.status()));
  CHECK_THAT(std::string(api.status().message()), Catch::Contains("nvrtcGetCUBIN"));
}

}  // namespace
}  // namespace kernelcast::worker
