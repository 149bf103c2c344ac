#include "services/worker/cuda/compiler/cubin.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "services/worker/cuda/compiler/ptx_facts.h"
#include "tests/unit/services/worker/cuda/compiler/compiled.h"

namespace kernelcast::worker {
namespace {

constexpr const char* kTwoKernels =
    "extern \"C\" __global__ void first(float* y, float f) {\n"
    "  __shared__ float s[300];\n"
    "  s[threadIdx.x] = y[threadIdx.x] * f;\n"
    "  __syncthreads();\n"
    "  y[threadIdx.x] = s[299 - threadIdx.x];\n"
    "}\n"
    "template <class T> __global__ void second(T* y) { y[threadIdx.x] += 1; }\n"
    "template __global__ void second<int>(int*);\n"
    "extern \"C\" __global__ void third(float* y, int n) {\n"
    "  float a[64];\n"
    "  for (int i = 0; i < 64; ++i) a[i * n & 63] = y[i];\n"
    "  y[0] = a[n];\n"
    "}\n";

TEST_CASE("A cubin's kernels are found with their parameters on every architecture") {
  if (!HaveNvrtc()) return;
  for (const char* architecture :
       {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"}) {
    INFO(architecture);
    const Compiled compiled = CompileInProcess(kTwoKernels, architecture);
    const auto cubin = ReadCubin(compiled.cubin);
    INFO(cubin.status().ToString());
    REQUIRE(cubin.ok());
    REQUIRE(cubin->kernels.size() == 3);
    CHECK(cubin->kernels[0].name == "_Z6secondIiEvPT_");
    CHECK(cubin->kernels[1].name == "first");
    CHECK(cubin->kernels[2].name == "third");
    CHECK(cubin->kernels[0].shared_bytes == 0);
    CHECK(cubin->kernels[1].shared_bytes == 1200);
    CHECK(cubin->kernels[2].stack_bytes == 256);
    for (const CubinKernel& kernel : cubin->kernels) {
      CHECK(kernel.registers >= 4);
      CHECK(kernel.code_bytes >= 128);
      CHECK(kernel.constant_bytes > 0);
    }
    // The assembler reports the same.
    for (const PtxasFunction& function : ReadPtxasInfo(compiled.log)) {
      INFO(function.name);
      const auto same =
          std::find_if(cubin->kernels.begin(), cubin->kernels.end(),
                       [&](const CubinKernel& kernel) { return kernel.name == function.name; });
      REQUIRE(same != cubin->kernels.end());
      CHECK(function.is_kernel);
      CHECK(same->registers == function.registers);
      CHECK(same->stack_bytes == function.stack_bytes);
      CHECK(same->shared_bytes == function.shared_bytes);
    }
  }
}

TEST_CASE("A damaged cubin is refused or read within its bounds") {
  CHECK(absl::IsInvalidArgument(ReadCubin("").status()));
  CHECK(absl::IsInvalidArgument(ReadCubin("\x7f"
                                          "ELF")
                                    .status()));
  CHECK(absl::IsInvalidArgument(ReadCubin(std::string(4096, 'x')).status()));
  if (!HaveNvrtc()) return;
  const std::string whole = CompileInProcess(kTwoKernels).cubin;
  CHECK_FALSE(ReadCubin(whole.substr(0, whole.size() / 2)).ok());
  for (size_t size = 0; size < whole.size(); size += 61) {
    // The program headers at the end are not read.
    const auto cubin = ReadCubin(whole.substr(0, size));
    CHECK((!cubin.ok() || cubin->kernels.size() == 3));
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\xff', '\0', '\x41'}) {
      std::string damaged = whole;
      damaged[at] = value;
      const auto cubin = ReadCubin(damaged);
      CHECK((!cubin.ok() || cubin->kernels.size() <= 64));
    }
  }
}

}  // namespace
}  // namespace kernelcast::worker
