#include <catch2/catch.hpp>
#include <string>

#include "services/worker/cuda/probe/machine.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/fake_cupti.h"

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)

namespace kernelcast::worker {
namespace {

using testing::FakeCuda;
using testing::FakeCupti;

TEST_CASE("Counters are probed in a context that is released again") {
  FakeCuda::Instance().Reset();
  FakeCupti::Instance().Reset();
  const CudaApi& api = FakeCuda::Api();
  const auto profiler = cuda_runner::MakeCuptiProfiler(FakeCupti::Api());
  CHECK(TryCounters(api, *profiler).permitted);
  CHECK(FakeCuda::Instance().Held().empty());

  FakeCupti::Instance().Inject("RangeEnable", FakeCupti::Effect::kFail,
                               CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  const CountersReport denied = TryCounters(api, *profiler);
  CHECK_FALSE(denied.permitted);
  CHECK(denied.restricted);
  CHECK_THAT(denied.reason, Catch::Contains("ERR_NVGPUCTRPERM"));

  FakeCupti::Instance().Inject("RangeEnable", FakeCupti::Effect::kFail,
                               CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED);
  const CountersReport mig = TryCounters(api, *profiler);
  CHECK_FALSE(mig.permitted);
  CHECK_FALSE(mig.restricted);

  FakeCuda::Instance().Inject("DevicePrimaryCtxRetain", 1, FakeCuda::Effect::kFailOnce,
                              CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THAT(TryCounters(api, *profiler).reason, Catch::Contains("making a context"));
  CHECK(FakeCuda::Instance().Held().empty());
  CHECK(FakeCuda::Instance().misuse().empty());
}

TEST_CASE("Without a profiling library counters are not promised") {
  CHECK_FALSE(ReportCountersHere("").permitted);
  CHECK_THAT(ReportCountersHere("").reason, Catch::Contains("libcupti"));
}

}  // namespace
}  // namespace kernelcast::worker

#endif  // KERNELCAST_HAS_CUPTI_HEADERS
