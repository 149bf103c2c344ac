#include "tests/fakes/cuda/fake_cupti.h"

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/worker/cuda/runner/profile_report.h"
#include "services/worker/cuda/runner/profiler.h"

namespace kernelcast::worker::cuda_runner {
namespace {

using testing::FakeCuda;
using testing::FakeCupti;
using CuptiEffect = FakeCupti::Effect;

CUcontext AContext() { return reinterpret_cast<CUcontext>(1); }

const std::vector<std::string> kMetrics = {"gpu__time_duration.sum", "bytes", "ratio"};

// A profiler on a fresh library, and kernels to profile.
class ProfilerSubject {
 public:
  ProfilerSubject() {
    FakeCuda::Instance().Reset();
    FakeCupti::Instance().Reset();
  }
  static FakeCupti& cupti() { return FakeCupti::Instance(); }

  // Kernels run when a driver callback says so.
  static void Ran(const std::string& name, double duration_ns) {
    static double now_ns = 0;
    now_ns += 1000;
    if (FakeCuda::Instance().on_launch) {
      FakeCuda::Instance().on_launch({name, now_ns, duration_ns});
    }
    now_ns += duration_ns;
  }
  absl::StatusOr<CounterValues> Count(const std::vector<std::string>& metrics = kMetrics) {
    return profiler->Count(
        0, AContext(), metrics, 2,
        [this] {
          Ran("flush", 7000);
          return ++prepared > 0;
        },
        [this] {
          Ran("first", 30'000);
          Ran("second", 10'000);
          return ++called != failing_call;
        });
  }

  int prepared = 0;
  int called = 0;
  int failing_call = -1;
  std::unique_ptr<Profiler> profiler = MakeCuptiProfiler(FakeCupti::Api());
};

TEST_CASE("Exactly the kernels that run during a trace are reported") {
  ProfilerSubject subject;
  for (const int round : {0, 1}) {
    INFO(round);
    ProfilerSubject::Ran("before", 1);
    const auto kernels = subject.profiler->Trace([&] {
      ProfilerSubject::Ran("a", 2000);
      ProfilerSubject::Ran("b", 3000);
      return true;
    });
    ProfilerSubject::Ran("after", 1);
    REQUIRE(kernels.ok());
    REQUIRE(kernels->size() == 2);
    CHECK((*kernels)[0].name == "a");
    CHECK((*kernels)[0].duration_ns == 2000);
    CHECK((*kernels)[1].name == "b");
    CHECK((*kernels)[1].start_ns > (*kernels)[0].start_ns);
    CHECK((*kernels)[1].registers == FakeCupti::kRegisters);
    CHECK((*kernels)[1].static_shared_bytes == FakeCupti::kStaticSharedBytes);
  }
}

TEST_CASE("More kernels than a buffer holds are all reported") {
  ProfilerSubject subject;
  const auto kernels = subject.profiler->Trace([&] {
    for (int i = 0; i < 20'000; ++i) ProfilerSubject::Ran(absl::StrCat("k", i), 5);
    return true;
  });
  REQUIRE(kernels.ok());
  REQUIRE(kernels->size() == 20'000);
  CHECK(kernels->front().name == "k0");
  CHECK(kernels->back().name == "k19999");
}

TEST_CASE("A failed trace is aborted and can be restarted") {
  ProfilerSubject subject;
  CHECK(absl::IsAborted(subject.profiler->Trace([] { return false; }).status()));
  CHECK(subject.profiler->Trace([] { return true; }).ok());
}

TEST_CASE("Counters are read for each kernel of the call in as many passes as needed") {
  ProfilerSubject subject;
  subject.cupti().value = [](const std::string& metric, const FakeCuda::Launched& kernel) {
    return metric == "bytes" ? (kernel.name == "first" ? 100.0 : 11.0) : 0.5;
  };
  const auto values = subject.Count();
  INFO(values.status().ToString());
  REQUIRE(values.ok());
  CHECK(values->passes == FakeCupti::kPasses);
  CHECK(subject.prepared == FakeCupti::kPasses);
  CHECK(subject.called == FakeCupti::kPasses);
  CHECK(values->kernels == std::vector<std::vector<double>>{{30'000, 100, 0.5}, {10'000, 11, 0.5}});
  CHECK_FALSE(subject.cupti().enabled());
  // Again, for the same and for other metrics.
  CHECK(subject.Count().ok());
  const auto others = subject.Count({"bytes"});
  REQUIRE(others.ok());
  CHECK(others->kernels == std::vector<std::vector<double>>{{100}, {11}});
}

TEST_CASE("A counter that the device lacks is missing and the others are present") {
  ProfilerSubject subject;
  subject.cupti().unknown = {"bytes"};
  const auto values = subject.Count();
  REQUIRE(values.ok());
  CHECK(std::isnan(values->kernels[0][1]));
  CHECK(values->kernels[0][0] == 30'000);
  CHECK(values->kernels[0][2] == 1);
  subject.cupti().unknown = {kMetrics.begin(), kMetrics.end()};
  ProfilerSubject none;
  none.cupti().unknown = {kMetrics.begin(), kMetrics.end()};
  CHECK(absl::IsNotFound(none.Count().status()));
}

TEST_CASE("Any failing library call reports an error and leaves profiling off") {
  const std::string function =
      GENERATE("ProfilerInitialize", "ProfilerDeviceSupported", "ProfilerGetCounterAvailability",
               "DeviceGetChipName", "HostInitialize", "HostConfigAddMetrics", "RangeEnable",
               "RangeGetCounterDataSize", "RangeSetConfig", "RangeStart", "RangeStop",
               "RangeDecodeData", "HostEvaluateToGpuValues");
  CAPTURE(function);
  ProfilerSubject subject;
  subject.cupti().Inject(function, CuptiEffect::kFail, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  const auto values = subject.Count();
  CHECK(absl::IsPermissionDenied(values.status()));
  CHECK_THAT(std::string(values.status().message()), Catch::Contains("ERR_NVGPUCTRPERM"));
  CHECK_FALSE(subject.cupti().enabled());
}

TEST_CASE("A virtual GPU that cannot be profiled is reported as such") {
  ProfilerSubject subject;
  subject.cupti().virtual_gpu = CUPTI_PROFILER_CONFIGURATION_DISABLED;
  for (const absl::Status& status :
       {subject.Count().status(), subject.profiler->Try(0, AContext())}) {
    CHECK(absl::IsUnimplemented(status));
    CHECK(status.message() == "the device cannot be profiled: a virtual GPU");
  }
}

TEST_CASE("A dry run reports whether counting works and counts nothing") {
  ProfilerSubject subject;
  CHECK(subject.profiler->Try(0, AContext()).ok());
  CHECK_FALSE(subject.cupti().enabled());
  CHECK(subject.cupti().passes() == 0);
  subject.cupti().Inject("RangeEnable", CuptiEffect::kFail, CUPTI_ERROR_HARDWARE_BUSY);
  CHECK(absl::IsUnavailable(subject.profiler->Try(0, AContext())));
}

TEST_CASE("Counting a failing call is aborted") {
  ProfilerSubject subject;
  subject.failing_call = 2;
  CHECK(absl::IsAborted(subject.Count().status()));
  CHECK(subject.called == 2);
  CHECK_FALSE(subject.cupti().enabled());
  CHECK(subject.Count().ok());
}

TEST_CASE("Without a library the profiler reports what is missing") {
  const auto profiler = OpenProfiler("/nonexistent/libcupti.so.13");
  CHECK(absl::IsNotFound(profiler->Trace([] { return true; }).status()));
  CHECK(absl::IsNotFound(profiler->Try(0, AContext())));
  const auto yes = [] { return true; };
  CHECK(absl::IsNotFound(profiler->Count(0, AContext(), kMetrics, 1, yes, yes).status()));
}

// The library opens another one in a way that sanitizers reject.
#if !defined(__SANITIZE_ADDRESS__) && !defined(KERNELCAST_SANITIZE_THREAD)

TEST_CASE("The real library knows the counters on every supported architecture") {
  const std::string path = absl::StrCat(KERNELCAST_CUDA_HOME, "/lib/libcupti.so.13");
  if (!std::filesystem::exists(path)) {
    SUCCEED("it is elsewhere, or of another version");
    return;
  }
  const auto api = LoadCuptiApi(path);
  REQUIRE(api.ok());
  for (const char* chip : {"GA100", "AD102", "GH100"}) {
    CUpti_Profiler_Host_Initialize_Params initialize{};
    initialize.structSize = CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE;
    initialize.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    initialize.pChipName = chip;
    REQUIRE(api->HostInitialize(&initialize) == CUPTI_SUCCESS);
    std::vector<std::string> metrics = CounterMetricNames();
    std::vector<const char*> known;
    for (const std::string& metric : metrics) {
      CAPTURE(chip, metric);
      CUpti_Profiler_Host_GetMetricProperties_Params properties{};
      properties.structSize = CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE;
      properties.pHostObject = initialize.pHostObject;
      properties.pMetricName = metric.c_str();
      const bool found = api->HostGetMetricProperties(&properties) == CUPTI_SUCCESS;
      // Warp group matrix instructions arrived with Hopper.
      CHECK(found == (std::string(chip) == "GH100" || metric.find("_gmma_") == std::string::npos));
      if (found) known.push_back(metric.c_str());
    }
    CUpti_Profiler_Host_ConfigAddMetrics_Params add{};
    add.structSize = CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE;
    add.pHostObject = initialize.pHostObject;
    add.ppMetricNames = known.data();
    add.numMetrics = known.size();
    CHECK(api->HostConfigAddMetrics(&add) == CUPTI_SUCCESS);
    CUpti_Profiler_Host_Deinitialize_Params end{};
    end.structSize = CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE;
    end.pHostObject = initialize.pHostObject;
    CHECK(api->HostDeinitialize(&end) == CUPTI_SUCCESS);
  }
}

#endif

}  // namespace
}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_HAS_CUPTI_HEADERS
