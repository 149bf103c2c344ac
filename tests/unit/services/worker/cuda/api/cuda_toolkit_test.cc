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
                           "/bin/ptxas", "/extras/CUPTI/lib64/libcupti.so.13"}) {
    Touch(home + file);
  }
  const auto toolkit = FindCudaToolkit({folder.path().string() + "/none", home});
  REQUIRE(toolkit.ok());
  CHECK(toolkit->home == home);
  CHECK(toolkit->nvrtc_library == home + "/lib/libnvrtc.so.13");
  CHECK(toolkit->nvrtc_builtins == home + "/lib/libnvrtc-builtins.so.13.0");
  CHECK(toolkit->include_directory == home + "/include");
  CHECK(toolkit->more_include_directories.empty());
  CHECK(toolkit->nvcc == home + "/bin/nvcc");
  CHECK(toolkit->ptxas == home + "/bin/ptxas");
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

TEST_CASE("A toolkit that is too old is passed over") {
  const TemporaryFolder folder("toolkit");
  const std::string old = folder.path().string() + "/old";
  const std::string good = folder.path().string() + "/good";
  for (const std::string& file :
       {old + "/lib64/libnvrtc.so.12", old + "/lib64/libnvrtc-builtins.so.12.4",
        old + "/include/cuda_fp16.h", good + "/lib64/libnvrtc.so.12",
        good + "/lib64/libnvrtc-builtins.so.12.8", good + "/include/cuda_fp16.h"}) {
    Touch(file);
  }
  const auto toolkit = FindCudaToolkit({old, good});
  REQUIRE(toolkit.ok());
  CHECK(toolkit->home == good);
  CHECK_THAT(std::string(FindCudaToolkit({old}).status().message()),
             Catch::Contains("/old: CUDA 12.4; 12.8 or later is needed"));
}

// Files as the packages have them that PyTorch and Triton bring.
TEST_CASE("The parts of CUDA 13 are found in a Python environment") {
  const TemporaryFolder folder("environment");
  const std::string packages = folder.path().string() + "/lib/python3.12/site-packages";
  const std::string home = packages + "/nvidia/cu13";
  for (const char* file :
       {"/lib/libnvrtc.so.13", "/lib/libnvrtc-builtins.so.13.0", "/lib/libcupti.so.13",
        "/lib/libcublas.so.13", "/lib/libcublasLt.so.13", "/include/cuda_fp16.h"}) {
    Touch(home + file);
  }
  Touch(packages + "/triton/backends/nvidia/bin/ptxas");
  Touch(packages + "/triton/backends/nvidia/include/crt/host_defines.h");
  Touch(packages + "/nvidia/cudnn/lib/libcudnn.so.9");
  Touch(folder.path().string() + "/lib/python3.9/site-packages/nvidia/cu12/lib/libnvrtc.so.12");

  unsetenv("KERNELCAST_CUDA_HOME");
  const auto homes = CudaHomes("", "", folder.path().string() + "/bin/python3");
  REQUIRE(homes.size() >= 4);
  CHECK(
      std::vector(homes.end() - 4, homes.end()) ==
      std::vector<std::string>{home, packages + "/nvidia",
                               folder.path().string() + "/lib/python3.9/site-packages/nvidia/cu12",
                               folder.path().string() + "/lib/python3.9/site-packages/nvidia"});
  const auto toolkit = FindCudaToolkit({homes.end() - 4, homes.end()});
  REQUIRE(toolkit.ok());
  CHECK(toolkit->home == home);
  CHECK(toolkit->nvrtc_library == home + "/lib/libnvrtc.so.13");
  CHECK(toolkit->include_directory == home + "/include");
  CHECK(toolkit->more_include_directories ==
        std::vector{packages + "/triton/backends/nvidia/include"});
  CHECK(toolkit->cupti_library == home + "/lib/libcupti.so.13");
  CHECK(toolkit->cublas_library == home + "/lib/libcublas.so.13");
  CHECK(toolkit->ptxas == packages + "/triton/backends/nvidia/bin/ptxas");
  CHECK(toolkit->nvcc.empty());
}

TEST_CASE("The parts of CUDA 12 are found in a Python environment") {
  const TemporaryFolder folder("environment");
  // For /usr/bin/python3, pip of Debian installs into /usr/local.
  const std::string packages = folder.path().string() + "/local/lib/python3.11/dist-packages";
  const std::string home = packages + "/nvidia";
  for (const char* file :
       {"/cuda_nvrtc/lib/libnvrtc.so.12", "/cuda_nvrtc/lib/libnvrtc-builtins.so.12.8",
        "/cuda_nvrtc/include/nvrtc.h", "/cuda_runtime/include/cuda_fp16.h",
        "/cuda_cccl/include/cub/cub.cuh", "/cuda_nvcc/include/crt/host_defines.h",
        "/cuda_nvcc/bin/ptxas", "/cuda_cupti/lib/libcupti.so.12", "/cublas/lib/libcublas.so.12",
        "/cublas/lib/libcublasLt.so.12"}) {
    Touch(home + file);
  }
  unsetenv("KERNELCAST_CUDA_HOME");
  const auto homes = CudaHomes("", "", folder.path().string() + "/bin/python3");
  CHECK(homes.back() == home);
  const auto toolkit = FindCudaToolkit({homes.back()});
  REQUIRE(toolkit.ok());
  CHECK(toolkit->nvrtc_library == home + "/cuda_nvrtc/lib/libnvrtc.so.12");
  CHECK(toolkit->nvrtc_builtins == home + "/cuda_nvrtc/lib/libnvrtc-builtins.so.12.8");
  CHECK(toolkit->include_directory == home + "/cuda_runtime/include");
  CHECK(toolkit->more_include_directories ==
        std::vector{home + "/cuda_nvcc/include", home + "/cuda_cccl/include"});
  CHECK(toolkit->cupti_library == home + "/cuda_cupti/lib/libcupti.so.12");
  CHECK(toolkit->cublas_library == home + "/cublas/lib/libcublas.so.12");
  CHECK(toolkit->ptxas == home + "/cuda_nvcc/bin/ptxas");
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
