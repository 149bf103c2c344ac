#include "services/worker/cuda/compiler/admission.h"

#include <catch2/catch.hpp>
#include <string>

namespace kernelcast::worker {
namespace {

TEST_CASE("Flags that only change code are accepted") {
  CHECK_FALSE(CheckCudaFlags({}).has_value());
  CHECK_FALSE(CheckCudaFlags({"--use_fast_math", "-std=c++20", "-maxrregcount=64", "-Xptxas=-O3",
                              "-Xptxas=-dlcm=cg", "-fmad=false", "-DTILE=64", "-DFAST",
                              "-DTYPE=unsigned long long", "-D_tile=1"})
                  .has_value());
}

TEST_CASE("Other flags are refused with the allowed ones") {
  for (const char* flag : {"-I/etc",
                           "-include=/etc/passwd",
                           "--pre-include=x",
                           "-time=/tmp/x",
                           "-G",
                           "-lineinfo",
                           "--pch",
                           "--create-pch=x",
                           "-maxrregcount=8",
                           "-maxrregcount=256",
                           "-maxrregcount=",
                           "-maxrregcount=6 4",
                           "-maxrregcount=N",
                           "-arch=sm_75",
                           "-Xptxas=-o,/tmp/x",
                           "-Xptxas",
                           "-D",
                           "-D1X=2",
                           "-D__CUDA_ARCH__=900",
                           "-D_X=1",
                           "-DX=\"/etc/passwd\"",
                           "-DX=a\nb",
                           "-DX=#include",
                           "-DX(y)=y",
                           "--fdevice-time-trace=x",
                           "",
                           "-fmad",
                           "-dlto"}) {
    INFO(flag);
    CHECK(CheckCudaFlags({"--use_fast_math", flag}).has_value());
  }
  const auto problem = CheckCudaFlags({"-I/etc"});
  CHECK_THAT(*problem, Catch::Contains("'-I/etc'") && Catch::Contains("-maxrregcount=N") &&
                           Catch::Contains("from 16 to 255"));
  CHECK(CheckCudaFlags({"-DX=" + std::string(300, '1')}).has_value());
}

}  // namespace
}  // namespace kernelcast::worker
