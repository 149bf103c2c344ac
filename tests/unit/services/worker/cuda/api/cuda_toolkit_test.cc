#include "services/worker/cuda/api/cuda_toolkit.h"

#include <stdlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/services.h"

namespace kernelcast::worker {
namespace {

using testing::TemporaryFolder;

void Touch(const std::string& path) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path);
  REQUIRE(file.good());
}

TEST_CASE("A toolkit is found by its libraries and headers") {
  const TemporaryFolder folder("toolkit");
  const std::string home = folder.path().string() + "/cuda";
  for (const char* file : {"/lib/libnvrtc.so.12", "/lib/libnvrtc.so.13", "/lib/libnvrtc.alt.so.13",
                           "/lib/libnvrtc-builtins.so.13.0", "/include/cuda_fp16.h", "/bin/nvcc",
                           "/extras/CUPTI/lib64/libcupti.so.13"}) {
    Touch(home + file);
  }
  const auto toolkit = FindCudaToolkit({folder.path().string() + "/none", home});
  REQUIRE(toolkit.ok());
  CHECK(toolkit->home == home);
  CHECK(toolkit->nvrtc_library == home + "/lib/libnvrtc.so.13");
  CHECK(toolkit->nvrtc_builtins == home + "/lib/libnvrtc-builtins.so.13.0");
  CHECK(toolkit->include_directory == home + "/include");
  CHECK(toolkit->nvcc == home + "/bin/nvcc");
  CHECK(toolkit->cupti_library == home + "/extras/CUPTI/lib64/libcupti.so.13");
}

TEST_CASE("Missing parts are reported for each folder") {
  const TemporaryFolder folder("toolkit");
  Touch(folder.path().string() + "/a/lib64/libnvrtc.so.13");
  Touch(folder.path().string() + "/b/lib64/libnvrtc.so.13");
  Touch(folder.path().string() + "/b/lib64/libnvrtc-builtins.so.13.0");
  const auto toolkit =
      FindCudaToolkit({folder.path().string() + "/a", folder.path().string() + "/b",
                       folder.path().string() + "/c"});
  REQUIRE(absl::IsNotFound(toolkit.status()));
  CHECK_THAT(std::string(toolkit.status().message()),
             Catch::Contains("/a: libnvrtc, but no libnvrtc-builtins.so next to it") &&
                 Catch::Contains("/b: libnvrtc, but no include/cuda_fp16.h") &&
                 Catch::Contains("/c: no libnvrtc.so"));
}

TEST_CASE("A requested folder is the only one searched") {
  CHECK(CudaHomes("/opt/cuda-13", "/opt/kernelcast/bin") ==
        std::vector<std::string>{"/opt/cuda-13"});
  unsetenv("KERNELCAST_CUDA_HOME");
  const std::vector<std::string> homes = CudaHomes("", "/opt/kernelcast/bin");
  CHECK(std::count(homes.begin(), homes.end(), "/opt/kernelcast/cuda") == 1);
  CHECK(std::count(homes.begin(), homes.end(), "/usr/local/cuda") == 1);
  setenv("KERNELCAST_CUDA_HOME", "/opt/cuda-14", 1);
  CHECK(CudaHomes("", "/opt/kernelcast/bin") == std::vector<std::string>{"/opt/cuda-14"});
  CHECK(CudaHomes("/opt/cuda-13", "") == std::vector<std::string>{"/opt/cuda-13"});
  unsetenv("KERNELCAST_CUDA_HOME");
}

}  // namespace
}  // namespace kernelcast::worker
