#include "tests/fakes/cuda/fake_cupti.h"

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)

#include <unistd.h>

#include <cstring>
#include <iterator>

namespace kernelcast::testing {
namespace {

constexpr size_t kImageBytes = 64;

CUpti_RangeProfiler_Object* TheRange() { return reinterpret_cast<CUpti_RangeProfiler_Object*>(1); }
CUpti_Profiler_Host_Object* TheHost() { return reinterpret_cast<CUpti_Profiler_Host_Object*>(2); }

}  // namespace

FakeCupti& FakeCupti::Instance() {
  static auto* const instance = new FakeCupti;
  return *instance;
}

void FakeCupti::Reset() { *this = FakeCupti(); }

CUptiResult FakeCupti::Enter(const char* function) {
  const auto found = faults_.find(function);
  if (found == faults_.end()) {
    return CUPTI_SUCCESS;
  }
  switch (found->second.effect) {
    case Effect::kHang:
      for (;;) pause();
    case Effect::kExit: _exit(7);
    case Effect::kFail: break;
  }
  return found->second.error;
}

void FakeCupti::Watch() {
  FakeCuda::Instance().on_launch = [this](const FakeCuda::Launched& launched) {
    if (tracing_) traced_.push_back(launched);
    if (counting_) counted_.push_back(launched);
  };
}

// The functions of the table, with access to the fake's internals.
class FakeCuptiTable {
 public:
  static worker::CuptiApi Make();

 private:
  static FakeCupti& fake() { return FakeCupti::Instance(); }
  static CUptiResult Flush();
};

#define FAKE_ENTER(function) \
  if (const CUptiResult entered = fake().Enter(#function); entered != CUPTI_SUCCESS) return entered
#define FAKE_NEEDS(condition) \
  if (!(condition)) return CUPTI_ERROR_INVALID_OPERATION

CUptiResult FakeCuptiTable::Flush() {
  uint8_t* buffer = nullptr;
  size_t bytes = 0;
  size_t max_records = 0;
  size_t used = 0;
  const auto hand_over = [&] {
    if (buffer != nullptr) fake().complete_(nullptr, 0, buffer, bytes, used);
    buffer = nullptr;
  };
  for (const FakeCuda::Launched& launched : fake().traced_) {
    if (buffer == nullptr) {
      fake().request_(&buffer, &bytes, &max_records);
      used = 0;
    }
    worker::CuptiKernelRecord record{};
    record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    record.name = launched.name.c_str();
    record.start = static_cast<uint64_t>(launched.start_ns);
    record.end = record.start + static_cast<uint64_t>(launched.duration_ns);
    record.registersPerThread = FakeCupti::kRegisters;
    record.staticSharedMemory = FakeCupti::kStaticSharedBytes;
    std::memcpy(buffer + used, &record, sizeof(record));
    used += sizeof(record);
    if (used + sizeof(record) > bytes) hand_over();
  }
  hand_over();
  fake().traced_.clear();
  return CUPTI_SUCCESS;
}

worker::CuptiApi FakeCuptiTable::Make() {
  worker::CuptiApi api;
  api.path = "fake";
  api.GetResultString = [](CUptiResult result, const char** text) {
    if (result != CUPTI_ERROR_INSUFFICIENT_PRIVILEGES) {
      return CUPTI_ERROR_INVALID_PARAMETER;
    }
    *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
    return CUPTI_SUCCESS;
  };
  api.ActivityRegisterCallbacks = [](CUpti_BuffersCallbackRequestFunc request,
                                     CUpti_BuffersCallbackCompleteFunc complete) {
    FAKE_ENTER(ActivityRegisterCallbacks);
    fake().request_ = request;
    fake().complete_ = complete;
    return CUPTI_SUCCESS;
  };
  api.ActivityEnable = [](CUpti_ActivityKind kind) {
    FAKE_ENTER(ActivityEnable);
    FAKE_NEEDS(fake().request_ != nullptr && kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    fake().tracing_ = true;
    fake().Watch();
    return CUPTI_SUCCESS;
  };
  api.ActivityDisable = [](CUpti_ActivityKind) {
    FAKE_NEEDS(fake().tracing_);
    fake().tracing_ = false;
    return CUPTI_SUCCESS;
  };
  api.ActivityFlushAll = [](uint32_t) {
    FAKE_ENTER(ActivityFlushAll);
    return Flush();
  };
  api.ActivityGetNextRecord = [](uint8_t* buffer, size_t valid_bytes, CUpti_Activity** record) {
    uint8_t* const next = *record == nullptr ? buffer
                                             : reinterpret_cast<uint8_t*>(*record) +
                                                   sizeof(worker::CuptiKernelRecord);
    if (next + sizeof(worker::CuptiKernelRecord) > buffer + valid_bytes) {
      return CUPTI_ERROR_MAX_LIMIT_REACHED;
    }
    *record = reinterpret_cast<CUpti_Activity*>(next);
    return CUPTI_SUCCESS;
  };
  api.DeviceGetChipName = [](CUpti_Device_GetChipName_Params* params) {
    FAKE_ENTER(DeviceGetChipName);
    params->pChipName = "FK100";
    return CUPTI_SUCCESS;
  };
  api.ProfilerInitialize = [](CUpti_Profiler_Initialize_Params*) {
    FAKE_ENTER(ProfilerInitialize);
    fake().initialised_ = true;
    return CUPTI_SUCCESS;
  };
  api.ProfilerDeviceSupported = [](CUpti_Profiler_DeviceSupported_Params* params) {
    FAKE_ENTER(ProfilerDeviceSupported);
    FAKE_NEEDS(fake().initialised_);
    params->architecture = params->sli = params->confidentialCompute = params->cmp = params->wsl =
        CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
    params->vGpu = params->isSupported = fake().virtual_gpu;
    return CUPTI_SUCCESS;
  };
  api.ProfilerGetCounterAvailability = [](CUpti_Profiler_GetCounterAvailability_Params* params) {
    FAKE_ENTER(ProfilerGetCounterAvailability);
    FAKE_NEEDS(fake().initialised_ && params->ctx != nullptr);
    params->counterAvailabilityImageSize = kImageBytes;
    return CUPTI_SUCCESS;
  };
  api.HostInitialize = [](CUpti_Profiler_Host_Initialize_Params* params) {
    FAKE_ENTER(HostInitialize);
    FAKE_NEEDS(std::string(params->pChipName) == "FK100" &&
               params->pCounterAvailabilityImage != nullptr);
    params->pHostObject = TheHost();
    return CUPTI_SUCCESS;
  };
  api.HostDeinitialize = [](CUpti_Profiler_Host_Deinitialize_Params*) { return CUPTI_SUCCESS; };
  api.HostGetMetricProperties = [](CUpti_Profiler_Host_GetMetricProperties_Params* params) {
    FAKE_ENTER(HostGetMetricProperties);
    return fake().unknown.count(params->pMetricName) != 0 ? CUPTI_ERROR_INVALID_METRIC_NAME
                                                          : CUPTI_SUCCESS;
  };
  api.HostConfigAddMetrics = [](CUpti_Profiler_Host_ConfigAddMetrics_Params* params) {
    FAKE_ENTER(HostConfigAddMetrics);
    FAKE_NEEDS(params->pHostObject == TheHost());
    for (size_t i = 0; i < params->numMetrics; ++i) {
      FAKE_NEEDS(fake().unknown.count(params->ppMetricNames[i]) == 0);
    }
    return CUPTI_SUCCESS;
  };
  api.HostGetConfigImageSize = [](CUpti_Profiler_Host_GetConfigImageSize_Params* params) {
    params->configImageSize = kImageBytes;
    return CUPTI_SUCCESS;
  };
  api.HostGetConfigImage = [](CUpti_Profiler_Host_GetConfigImage_Params* params) {
    FAKE_NEEDS(params->configImageSize == kImageBytes && params->pConfigImage != nullptr);
    return CUPTI_SUCCESS;
  };
  api.RangeEnable = [](CUpti_RangeProfiler_Enable_Params* params) {
    FAKE_ENTER(RangeEnable);
    FAKE_NEEDS(!fake().enabled_ && params->ctx != nullptr);
    fake().enabled_ = true;
    fake().Watch();
    params->pRangeProfilerObject = TheRange();
    return CUPTI_SUCCESS;
  };
  api.RangeDisable = [](CUpti_RangeProfiler_Disable_Params*) {
    FAKE_NEEDS(fake().enabled_);
    fake().enabled_ = fake().configured_ = fake().counting_ = false;
    return CUPTI_SUCCESS;
  };
  api.RangeGetCounterDataSize = [](CUpti_RangeProfiler_GetCounterDataSize_Params* params) {
    FAKE_ENTER(RangeGetCounterDataSize);
    FAKE_NEEDS(fake().enabled_ && params->numMetrics > 0 && params->maxNumOfRanges > 0);
    params->counterDataSize = kImageBytes;
    return CUPTI_SUCCESS;
  };
  api.RangeCounterDataImageInitialize =
      [](CUpti_RangeProfiler_CounterDataImage_Initialize_Params* params) {
        FAKE_NEEDS(params->counterDataSize == kImageBytes);
        return CUPTI_SUCCESS;
      };
  api.RangeSetConfig = [](CUpti_RangeProfiler_SetConfig_Params* params) {
    FAKE_ENTER(RangeSetConfig);
    FAKE_NEEDS(fake().enabled_ && params->configSize == kImageBytes &&
               params->replayMode == CUPTI_UserReplay && params->range == CUPTI_AutoRange);
    fake().configured_ = true;
    fake().decoded_ = false;
    fake().passes_of_config_ = 0;
    return CUPTI_SUCCESS;
  };
  api.RangeStart = [](CUpti_RangeProfiler_Start_Params*) {
    FAKE_ENTER(RangeStart);
    FAKE_NEEDS(fake().configured_ && !fake().counting_);
    fake().counting_ = true;
    fake().counted_.clear();
    return CUPTI_SUCCESS;
  };
  api.RangeStop = [](CUpti_RangeProfiler_Stop_Params* params) {
    FAKE_ENTER(RangeStop);
    FAKE_NEEDS(fake().counting_);
    fake().counting_ = false;
    ++fake().passes_;
    params->isAllPassSubmitted = ++fake().passes_of_config_ == FakeCupti::kPasses ? 1 : 0;
    return CUPTI_SUCCESS;
  };
  api.RangeDecodeData = [](CUpti_RangeProfiler_DecodeData_Params*) {
    FAKE_ENTER(RangeDecodeData);
    FAKE_NEEDS(fake().passes_of_config_ == FakeCupti::kPasses);
    fake().decoded_ = true;
    return CUPTI_SUCCESS;
  };
  api.RangeGetCounterDataInfo = [](CUpti_RangeProfiler_GetCounterDataInfo_Params* params) {
    FAKE_NEEDS(fake().decoded_);
    params->numTotalRanges = fake().counted_.size();
    return CUPTI_SUCCESS;
  };
  api.HostEvaluateToGpuValues = [](CUpti_Profiler_Host_EvaluateToGpuValues_Params* params) {
    FAKE_ENTER(HostEvaluateToGpuValues);
    FAKE_NEEDS(fake().decoded_ && params->rangeIndex < fake().counted_.size());
    const FakeCuda::Launched& kernel = fake().counted_[params->rangeIndex];
    for (size_t i = 0; i < params->numMetrics; ++i) {
      const std::string metric = params->ppMetricNames[i];
      params->pMetricValues[i] = metric == "gpu__time_duration.sum" ? kernel.duration_ns
                                 : fake().value                     ? fake().value(metric, kernel)
                                                                    : 1;
    }
    return CUPTI_SUCCESS;
  };
  return api;
}

#undef FAKE_ENTER
#undef FAKE_NEEDS

worker::CuptiApi FakeCupti::Api() { return FakeCuptiTable::Make(); }

}  // namespace kernelcast::testing

#endif  // KERNELCAST_HAS_CUPTI_HEADERS
