#include "services/worker/cuda/api/cupti_api.h"

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"

namespace kernelcast::worker {
namespace {

CUptiResult FakeResultString(CUptiResult result, const char** text) {
  if (result != CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  *text = "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED";
  return CUPTI_SUCCESS;
}

TEST_CASE("Every symbol missing from a profiling library is named") {
  int somewhere = 0;
  const auto whole = FillCuptiApi([&](const char*) -> void* { return &somewhere; });
  REQUIRE(whole.ok());
  CHECK(whole->RangeStart != nullptr);
  const auto old = FillCuptiApi([&](const char* symbol) -> void* {
    const std::string name(symbol);
    return name == "cuptiRangeProfilerEnable" || name == "cuptiProfilerHostInitialize" ? nullptr
                                                                                       : &somewhere;
  });
  REQUIRE(absl::IsUnimplemented(old.status()));
  CHECK(old.status().message() ==
        "libcupti is too old or too new: it has no cuptiProfilerHostInitialize, "
        "cuptiRangeProfilerEnable");
}

TEST_CASE("A missing profiling library is not found") {
  const auto api = LoadCuptiApi("/nonexistent/libcupti.so.13");
  REQUIRE(absl::IsNotFound(api.status()));
  CHECK_THAT(std::string(api.status().message()), Catch::Contains("/nonexistent/libcupti.so.13"));
}

TEST_CASE("A profiling error becomes a status with advice") {
  CuptiApi api;
  api.GetResultString = FakeResultString;
  CHECK(CuptiStatus(api, CUPTI_SUCCESS, "x").ok());
  const auto mig = CuptiStatus(api, CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED, "counting");
  CHECK(absl::IsUnimplemented(mig));
  CHECK(mig.message() ==
        "counting: CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED: a MIG instance has no counters");
  const auto denied = CuptiStatus(api, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "counting");
  CHECK(absl::IsPermissionDenied(denied));
  CHECK_THAT(std::string(denied.message()),
             Catch::Contains("CUPTI error 35") && Catch::Contains("ERR_NVGPUCTRPERM"));
  CHECK(absl::IsPermissionDenied(
      CuptiStatus(api, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES, "x")));
  CHECK(absl::IsUnimplemented(CuptiStatus(api, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED, "x")));
  CHECK(absl::IsUnavailable(CuptiStatus(api, CUPTI_ERROR_HARDWARE_BUSY, "x")));
  CHECK(absl::IsInvalidArgument(CuptiStatus(api, CUPTI_ERROR_INVALID_METRIC_NAME, "x")));
  CHECK(CuptiStatus(api, CUPTI_ERROR_UNKNOWN, "x").code() == absl::StatusCode::kInternal);
  CHECK(CuptiStatus(CuptiApi(), CUPTI_ERROR_UNKNOWN, "x").message() == "x: CUPTI error 999");
}

TEST_CASE("The library used at build time loads") {
  const std::string path = absl::StrCat(KERNELCAST_CUDA_HOME, "/lib/libcupti.so.13");
  if (!std::filesystem::exists(path)) {
    SUCCEED("it is elsewhere, or of another version");
    return;
  }
  const auto api = LoadCuptiApi(path);
  INFO(api.status().ToString());
  REQUIRE(api.ok());
  CHECK(api->path == path);
  uint32_t version = 0;
  REQUIRE(api->GetVersion(&version) == CUPTI_SUCCESS);
  CHECK(version == CUPTI_API_VERSION);
}

}  // namespace
}  // namespace kernelcast::worker

#endif  // KERNELCAST_HAS_CUPTI_HEADERS
