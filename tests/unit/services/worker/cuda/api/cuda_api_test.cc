#include "services/worker/cuda/api/cuda_api.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

namespace kernelcast::worker {
namespace {

CUresult FakeErrorName(CUresult result, const char** name) {
  if (result == CUDA_ERROR_ILLEGAL_ADDRESS) {
    *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult FakeErrorString(CUresult, const char** text) {
  *text = "an illegal memory access was encountered";
  return CUDA_SUCCESS;
}

TEST_CASE("The table is filled with the symbols that the header renames to") {
  std::set<std::string> asked;
  int somewhere = 0;
  const auto api = FillCudaApi([&](const char* symbol) -> void* {
    asked.insert(symbol);
    return &somewhere;
  });
  REQUIRE(api.ok());
  CHECK(api->Init != nullptr);
  CHECK(api->MemGetAllocationGranularity != nullptr);
  CHECK(asked.count("cuInit") == 1);
  CHECK(asked.count("cuMemAlloc_v2") == 1);
  CHECK(asked.count("cuMemAlloc") == 0);
  CHECK(asked.count("cuStreamDestroy_v2") == 1);
  CHECK(asked.count("cuDevicePrimaryCtxRelease_v2") == 1);
}

TEST_CASE("Every symbol missing from a driver is named") {
  int somewhere = 0;
  const auto api = FillCudaApi([&](const char* symbol) -> void* {
    const std::string name(symbol);
    return name == "cuMemMap" || name == "cuLaunchKernelEx" ? nullptr : &somewhere;
  });
  REQUIRE(absl::IsUnimplemented(api.status()));
  CHECK(api.status().message() ==
        "the NVIDIA driver is too old or too new: it has no cuLaunchKernelEx, cuMemMap");
}

TEST_CASE("Loading reports its result, and again on later calls") {
  const auto first = LoadCudaApi();
  const auto second = LoadCudaApi();
  REQUIRE(first.ok() == second.ok());
  if (first.ok()) {
    CHECK(*first == *second);
    int version = 0;
    CHECK((*first)->DriverGetVersion(&version) == CUDA_SUCCESS);
    CHECK(version >= 12000);
  } else {
    CHECK_THAT(std::string(first.status().message()), Catch::Contains("libcuda.so.1"));
  }
}

TEST_CASE("Driver results become statuses with their name") {
  CudaApi api;
  api.GetErrorName = FakeErrorName;
  api.GetErrorString = FakeErrorString;
  CHECK(CudaStatus(api, CUDA_SUCCESS, "launch").ok());
  const absl::Status poisoned =
      CudaStatus(api, CUDA_ERROR_ILLEGAL_ADDRESS, "launch of row_softmax");
  CHECK(absl::IsAborted(poisoned));
  CHECK(poisoned.message() ==
        "launch of row_softmax: CUDA_ERROR_ILLEGAL_ADDRESS: "
        "an illegal memory access was encountered");
  CHECK(absl::IsResourceExhausted(CudaStatus(api, CUDA_ERROR_OUT_OF_MEMORY, "x")));
  CHECK(absl::IsInvalidArgument(CudaStatus(api, CUDA_ERROR_INVALID_IMAGE, "x")));
  CHECK(absl::IsNotFound(CudaStatus(api, CUDA_ERROR_NOT_FOUND, "x")));
  CHECK(absl::IsUnavailable(CudaStatus(api, CUDA_ERROR_NO_DEVICE, "x")));
  CHECK(absl::IsPermissionDenied(CudaStatus(api, CUDA_ERROR_NOT_PERMITTED, "x")));
  CHECK(absl::IsUnimplemented(CudaStatus(api, CUDA_ERROR_NOT_SUPPORTED, "x")));
  CHECK(absl::IsInternal(CudaStatus(api, CUDA_ERROR_UNKNOWN, "x")));
}

TEST_CASE("A result without a name keeps its number") {
  const CudaApi none;
  CHECK(CudaStatus(none, CUDA_ERROR_UNKNOWN, "sync").message() == "sync: CUDA error 999");
}

TEST_CASE("Kernel failures stick to the context and refused calls do not") {
  for (const CUresult sticky : {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED,
                                CUDA_ERROR_ASSERT, CUDA_ERROR_LAUNCH_TIMEOUT}) {
    CHECK(IsSticky(sticky));
  }
  for (const CUresult passing : {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
                                 CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_NOT_READY}) {
    CHECK_FALSE(IsSticky(passing));
  }
}

}  // namespace
}  // namespace kernelcast::worker
