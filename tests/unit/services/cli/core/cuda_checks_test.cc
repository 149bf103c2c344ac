#include "services/cli/core/cuda_checks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::cli {
namespace {

const Check& Named(const std::vector<Check>& checks, const std::string& name) {
  const auto found = std::find_if(checks.begin(), checks.end(),
                                  [&](const Check& check) { return check.name == name; });
  INFO(name);
  REQUIRE(found != checks.end());
  return *found;
}

constexpr const char* kServer = R"({
  "driver": {"found": true, "version": "580.82.07", "cuda_version": "13.0", "error": ""},
  "gpus": [
    {"name": "NVIDIA H200", "uuid": "GPU-1", "architecture": "sm_90",
     "memory_bytes": 150000000000, "multiprocessors": 132, "clock_mhz": 345,
     "max_clock_mhz": 1980, "temperature_celsius": 31, "clock_reasons": [], "mig": false,
     "processes": []},
    {"name": "NVIDIA H200", "uuid": "GPU-2", "architecture": "sm_90",
     "memory_bytes": 150000000000, "multiprocessors": 132, "clock_mhz": null,
     "max_clock_mhz": null, "clock_reasons": ["power_cap"], "mig": true,
     "processes": [{"pid": 1, "memory_bytes": 1073741824}, {"pid": 2, "memory_bytes": null}]}],
  "nvrtc": {"found": true, "path": "/opt/cuda/lib64/libnvrtc.so.13", "version": "13.0",
            "error": "", "headers": "/opt/cuda/include", "cccl": true,
            "architectures": ["sm_75", "sm_90", "sm_121"]},
  "nvcc": {"found": false, "path": "", "version": "", "error": "no nvcc"},
  "cupti": {"found": true, "path": "/opt/cuda/lib64/libcupti.so.13", "version": "API 130000"},
  "counters": {"permitted": false, "reason": "the driver lets administrators only read them",
               "restricted": true}})";

TEST_CASE("GPUs, tools and counters are found, with possible improvements") {
  const auto checks = CudaChecks(kServer);
  CHECK(Named(checks, "gpu driver").verdict == Verdict::kGood);
  CHECK(Named(checks, "gpu driver").detail == "NVIDIA driver 580.82.07, for CUDA up to 13.0");
  const Check& good = Named(checks, "gpu 0");
  CHECK(good.verdict == Verdict::kGood);
  CHECK(good.detail ==
        "NVIDIA H200, sm_90, 140 GiB, 132 multiprocessors, 345 of 1980 MHz, 31 C, GPU-1");
  const Check& busy = Named(checks, "gpu 1");
  CHECK(busy.verdict == Verdict::kNote);
  CHECK_THAT(busy.detail, Catch::Contains("MIG") &&
                              Catch::Contains("2 processes compute on it with 1.00 GiB") &&
                              Catch::Contains("power_cap"));
  CHECK_THAT(Named(checks, "nvrtc").detail,
             Catch::StartsWith("13.0, /opt/cuda/lib64") && Catch::Contains("sm_75 to sm_121"));
  CHECK(Named(checks, "nvcc").verdict == Verdict::kNote);
  CHECK_THAT(Named(checks, "nvcc").detail, Catch::Contains("install"));
  CHECK(Named(checks, "cupti").verdict == Verdict::kGood);
  CHECK(Named(checks, "gpu counters").verdict == Verdict::kNote);
  CHECK_THAT(Named(checks, "gpu counters").detail,
             Catch::Contains("NVreg_RestrictProfilingToAdminUsers=0"));
}

TEST_CASE("Limits that no driver setting would change are not blamed on one") {
  std::string report = kServer;
  const std::string restricted = "\"restricted\": true";
  report.replace(report.find(restricted), restricted.size(), "\"restricted\": false");
  const auto checks = CudaChecks(report);
  CHECK(Named(checks, "gpu counters").verdict == Verdict::kNote);
  CHECK(Named(checks, "gpu counters").detail == "the driver lets administrators only read them");
}

TEST_CASE("A machine without a GPU gets only advice on compiling for one") {
  const auto checks = CudaChecks(
      R"({"driver": {"found": false, "version": "", "cuda_version": "",
                     "error": "libcuda.so.1: cannot open"},
          "gpus": [], "nvrtc": {"found": false, "error": "/usr: no libnvrtc.so"}})");
  REQUIRE(checks.size() == 2);
  CHECK(checks[0].verdict == Verdict::kNote);
  CHECK_THAT(checks[0].detail, Catch::StartsWith("none"));
  CHECK(checks[1].name == "nvrtc");
  CHECK_THAT(checks[1].detail,
             Catch::Contains("/usr: no libnvrtc.so") && Catch::Contains("scripts/setup.sh"));
}

TEST_CASE("Missing headers of CCCL are named with the command that installs them") {
  std::string report = kServer;
  CHECK(std::ranges::none_of(CudaChecks(report), [](const Check& c) { return c.name == "cccl"; }));
  const std::string present = "\"cccl\": true";
  report.replace(report.find(present), present.size(), "\"cccl\": false");
  const auto checks = CudaChecks(report);
  CHECK(Named(checks, "cccl").verdict == Verdict::kNote);
  CHECK_THAT(Named(checks, "cccl").detail,
             Catch::Contains("/opt/cuda/include") &&
                 Catch::Contains("pip install 'nvidia-cuda-cccl==13.0.*'"));
}

TEST_CASE("A driver that is present but broken reports why") {
  const auto checks = CudaChecks(
      R"({"driver": {"found": false, "version": "580", "cuda_version": "13.0",
                     "error": "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}})");
  CHECK_THAT(checks.at(0).detail, Catch::Contains("does not work: cuInit: CUDA_ERROR_SYSTEM"));
}

TEST_CASE("Any probe output is handled and none of it controls the terminal") {
  for (const char* output : {"", "Segmentation fault", "[]", "null", "{}", R"({"gpus": [1, {}]})",
                             R"({"gpus": {}, "nvrtc": [], "driver": 7})"}) {
    INFO(output);
    const auto checks = CudaChecks(output);
    REQUIRE_FALSE(checks.empty());
    for (const Check& check : checks) {
      CHECK(check.verdict != Verdict::kMissing);
    }
  }
  const auto odd = CudaChecks(R"({"driver": {"found": true}, "gpus": [{"name": "a\u001b[2Jb"}]})");
  CHECK(Named(odd, "gpu 0").detail.find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace kernelcast::cli
