#include "services/worker/cuda/runner/profiler.h"

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::worker::cuda_runner {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr size_t kBufferAlignment = 8;
// More than any set of metrics needs.
constexpr int kMaxPasses = 500;

// Declares a structure of the library and sets its size, which is its version.
#define KERNELCAST_CUPTI_PARAMS(type, name) \
  CUpti_##type##_Params name{};             \
  name.structSize = CUpti_##type##_Params_STRUCT_SIZE

// State of CUPTI's callbacks, which take no user argument and run on a thread of the library.
struct Collected {
  std::mutex mutex;
  decltype(CuptiApi::ActivityGetNextRecord) next = nullptr;
  std::vector<KernelRun> kernels;
};

Collected& TheCollected() {
  static auto* const collected = new Collected;
  return *collected;
}

void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;
}

void CUPTIAPI TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  Collected& collected = TheCollected();
  const std::lock_guard lock(collected.mutex);
  CUpti_Activity* activity = nullptr;
  while (collected.next(buffer, valid_bytes, &activity) == CUPTI_SUCCESS) {
    if (activity->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      continue;
    }
    const auto& record = *reinterpret_cast<const CuptiKernelRecord*>(activity);
    KernelRun run;
    run.name = record.name == nullptr ? "" : record.name;
    run.start_ns = static_cast<double>(record.start);
    run.duration_ns = static_cast<double>(record.end - record.start);
    run.registers = record.registersPerThread;
    run.static_shared_bytes = static_cast<uint32_t>(std::max(0, record.staticSharedMemory));
    run.dynamic_shared_bytes = static_cast<uint32_t>(std::max(0, record.dynamicSharedMemory));
    collected.kernels.push_back(std::move(run));
  }
  std::free(buffer);
}

class CuptiProfiler final : public Profiler {
 public:
  explicit CuptiProfiler(CuptiApi api) : api_(std::move(api)) {}
  ~CuptiProfiler() override { Forget(); }

  absl::StatusOr<std::vector<KernelRun>> Trace(const Work& work) override;
  absl::Status Try(CUdevice device, CUcontext context) override;
  absl::StatusOr<CounterValues> Count(CUdevice device, CUcontext context,
                                      const std::vector<std::string>& metrics, size_t max_kernels,
                                      const Work& prepare, const Work& call) override;

 private:
  using Range = CUpti_RangeProfiler_Object;

  absl::Status Check(CUptiResult result, const char* what) const {
    return CuptiStatus(api_, result, what);
  }
  // Undoes Configure.
  void Forget();
  absl::Status CheckSupport(CUdevice device);
  absl::Status AskAvailability(CUcontext context);
  // Determines which metrics the device has, and how to count them.
  absl::Status Configure(CUdevice device, CUcontext context,
                         const std::vector<std::string>& metrics);
  absl::StatusOr<uint32_t> RunPasses(Range* range, const Work& prepare, const Work& call);
  absl::StatusOr<CounterValues> CountWith(Range* range, size_t max_kernels, const Work& prepare,
                                          const Work& call);
  absl::Status Evaluate(const std::vector<uint8_t>& image, CounterValues& values);

  const CuptiApi api_;
  bool tracing_ready_ = false;
  // Set by Configure.
  std::vector<std::string> metrics_;
  std::vector<size_t> known_;  // indices of the metrics that the device has
  std::vector<const char*> known_names_;
  std::vector<uint8_t> availability_;
  std::vector<uint8_t> config_;
  CUpti_Profiler_Host_Object* host_ = nullptr;
};

absl::StatusOr<std::vector<KernelRun>> CuptiProfiler::Trace(const Work& work) {
  Collected& collected = TheCollected();
  {
    const std::lock_guard lock(collected.mutex);
    collected.next = api_.ActivityGetNextRecord;
    collected.kernels.clear();
  }
  if (!tracing_ready_) {
    KC_RETURN_IF_ERROR(Check(api_.ActivityRegisterCallbacks(GiveBuffer, TakeBuffer),
                             "cuptiActivityRegisterCallbacks"));
    tracing_ready_ = true;
  }
  KC_RETURN_IF_ERROR(
      Check(api_.ActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable"));
  const bool worked = work();
  const absl::Status flushed =
      Check(api_.ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  api_.ActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (!worked) {
    return absl::AbortedError("the calls failed while they were traced");
  }
  KC_RETURN_IF_ERROR(flushed);
  std::vector<KernelRun> kernels;
  {
    const std::lock_guard lock(collected.mutex);
    kernels = std::exchange(collected.kernels, {});
  }
  std::ranges::stable_sort(kernels, {}, &KernelRun::start_ns);
  return kernels;
}

void CuptiProfiler::Forget() {
  if (host_ == nullptr) return;
  KERNELCAST_CUPTI_PARAMS(Profiler_Host_Deinitialize, params);
  params.pHostObject = host_;
  api_.HostDeinitialize(&params);
  host_ = nullptr;
}

absl::Status CuptiProfiler::CheckSupport(CUdevice device) {
  KERNELCAST_CUPTI_PARAMS(Profiler_Initialize, initialize);
  KC_RETURN_IF_ERROR(Check(api_.ProfilerInitialize(&initialize), "cuptiProfilerInitialize"));
  KERNELCAST_CUPTI_PARAMS(Profiler_DeviceSupported, support);
  support.cuDevice = device;
  support.api = CUPTI_PROFILER_RANGE_PROFILING;
  KC_RETURN_IF_ERROR(Check(api_.ProfilerDeviceSupported(&support), "cuptiProfilerDeviceSupported"));
  if (support.isSupported == CUPTI_PROFILER_CONFIGURATION_SUPPORTED) {
    return absl::OkStatus();
  }
  std::string why;
  for (const auto& [level, what] :
       {std::pair{support.architecture, "an architecture that the profiler does not know"},
        std::pair{support.sli, "SLI"}, std::pair{support.vGpu, "a virtual GPU"},
        std::pair{support.confidentialCompute, "confidential computing"},
        std::pair{support.cmp, "a mining device"}, std::pair{support.wsl, "WSL"}}) {
    if (level == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED ||
        level == CUPTI_PROFILER_CONFIGURATION_DISABLED) {
      absl::StrAppend(&why, why.empty() ? ": " : ", ", what);
    }
  }
  return absl::UnimplementedError(absl::StrCat("the device cannot be profiled", why));
}

absl::Status CuptiProfiler::AskAvailability(CUcontext context) {
  KERNELCAST_CUPTI_PARAMS(Profiler_GetCounterAvailability, available);
  available.ctx = context;
  KC_RETURN_IF_ERROR(Check(api_.ProfilerGetCounterAvailability(&available),
                           "cuptiProfilerGetCounterAvailability"));
  availability_.resize(available.counterAvailabilityImageSize);
  available.pCounterAvailabilityImage = availability_.data();
  return Check(api_.ProfilerGetCounterAvailability(&available),
               "cuptiProfilerGetCounterAvailability");
}

absl::Status CuptiProfiler::Try(CUdevice device, CUcontext context) {
  KC_RETURN_IF_ERROR(CheckSupport(device));
  KC_RETURN_IF_ERROR(AskAvailability(context));
  KERNELCAST_CUPTI_PARAMS(RangeProfiler_Enable, enable);
  enable.ctx = context;
  KC_RETURN_IF_ERROR(Check(api_.RangeEnable(&enable), "cuptiRangeProfilerEnable"));
  KERNELCAST_CUPTI_PARAMS(RangeProfiler_Disable, disable);
  disable.pRangeProfilerObject = enable.pRangeProfilerObject;
  return Check(api_.RangeDisable(&disable), "cuptiRangeProfilerDisable");
}

absl::Status CuptiProfiler::Configure(CUdevice device, CUcontext context,
                                      const std::vector<std::string>& metrics) {
  if (host_ != nullptr && metrics_ == metrics) {
    return absl::OkStatus();
  }
  Forget();
  KC_RETURN_IF_ERROR(CheckSupport(device));
  KERNELCAST_CUPTI_PARAMS(Device_GetChipName, chip);
  chip.deviceIndex = static_cast<size_t>(device);
  KC_RETURN_IF_ERROR(Check(api_.DeviceGetChipName(&chip), "cuptiDeviceGetChipName"));
  KC_RETURN_IF_ERROR(AskAvailability(context));
  KERNELCAST_CUPTI_PARAMS(Profiler_Host_Initialize, initialize);
  initialize.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  initialize.pChipName = chip.pChipName;
  initialize.pCounterAvailabilityImage = availability_.data();
  KC_RETURN_IF_ERROR(Check(api_.HostInitialize(&initialize), "cuptiProfilerHostInitialize"));
  host_ = initialize.pHostObject;
  metrics_ = metrics;
  known_.clear();
  known_names_.clear();
  for (size_t i = 0; i < metrics_.size(); ++i) {
    const char* const name = metrics_[i].c_str();
    // Adding an unknown metric would leave the object unusable.
    KERNELCAST_CUPTI_PARAMS(Profiler_Host_GetMetricProperties, properties);
    properties.pHostObject = host_;
    properties.pMetricName = name;
    if (api_.HostGetMetricProperties(&properties) == CUPTI_SUCCESS) {
      known_.push_back(i);
      known_names_.push_back(name);
    }
  }
  if (known_.empty()) {
    return absl::NotFoundError(
        absl::StrCat("the profiler knows none of the counters on ", chip.pChipName));
  }
  KERNELCAST_CUPTI_PARAMS(Profiler_Host_ConfigAddMetrics, add);
  add.pHostObject = host_;
  add.ppMetricNames = known_names_.data();
  add.numMetrics = known_names_.size();
  KC_RETURN_IF_ERROR(Check(api_.HostConfigAddMetrics(&add), "cuptiProfilerHostConfigAddMetrics"));
  KERNELCAST_CUPTI_PARAMS(Profiler_Host_GetConfigImageSize, size);
  size.pHostObject = host_;
  KC_RETURN_IF_ERROR(
      Check(api_.HostGetConfigImageSize(&size), "cuptiProfilerHostGetConfigImageSize"));
  config_.assign(size.configImageSize, 0);
  KERNELCAST_CUPTI_PARAMS(Profiler_Host_GetConfigImage, image);
  image.pHostObject = host_;
  image.configImageSize = config_.size();
  image.pConfigImage = config_.data();
  return Check(api_.HostGetConfigImage(&image), "cuptiProfilerHostGetConfigImage");
}

absl::StatusOr<uint32_t> CuptiProfiler::RunPasses(Range* range, const Work& prepare,
                                                  const Work& call) {
  for (int pass = 1; pass <= kMaxPasses; ++pass) {
    if (!prepare()) {
      return absl::AbortedError("what comes before a call failed while it was profiled");
    }
    KERNELCAST_CUPTI_PARAMS(RangeProfiler_Start, start);
    start.pRangeProfilerObject = range;
    KC_RETURN_IF_ERROR(Check(api_.RangeStart(&start), "cuptiRangeProfilerStart"));
    const bool called = call();
    KERNELCAST_CUPTI_PARAMS(RangeProfiler_Stop, stop);
    stop.pRangeProfilerObject = range;
    const absl::Status stopped = Check(api_.RangeStop(&stop), "cuptiRangeProfilerStop");
    if (!called) {
      return absl::AbortedError("a call failed while its counters were read");
    }
    KC_RETURN_IF_ERROR(stopped);
    if (stop.isAllPassSubmitted != 0) {
      return static_cast<uint32_t>(pass);
    }
  }
  return absl::InternalError(absl::StrCat("the counters took more than ", kMaxPasses, " passes"));
}

absl::Status CuptiProfiler::Evaluate(const std::vector<uint8_t>& image, CounterValues& values) {
  KERNELCAST_CUPTI_PARAMS(RangeProfiler_GetCounterDataInfo, info);
  info.pCounterDataImage = image.data();
  info.counterDataImageSize = image.size();
  KC_RETURN_IF_ERROR(
      Check(api_.RangeGetCounterDataInfo(&info), "cuptiRangeProfilerGetCounterDataInfo"));
  for (size_t range = 0; range < info.numTotalRanges; ++range) {
    std::vector<double> known(known_.size());
    KERNELCAST_CUPTI_PARAMS(Profiler_Host_EvaluateToGpuValues, evaluate);
    evaluate.pHostObject = host_;
    evaluate.pCounterDataImage = image.data();
    evaluate.counterDataImageSize = image.size();
    evaluate.rangeIndex = range;
    evaluate.ppMetricNames = known_names_.data();
    evaluate.numMetrics = known_names_.size();
    evaluate.pMetricValues = known.data();
    KC_RETURN_IF_ERROR(
        Check(api_.HostEvaluateToGpuValues(&evaluate), "cuptiProfilerHostEvaluateToGpuValues"));
    std::vector<double>& kernel =
        values.kernels.emplace_back(metrics_.size(), std::numeric_limits<double>::quiet_NaN());
    for (size_t i = 0; i < known_.size(); ++i) kernel[known_[i]] = known[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<CounterValues> CuptiProfiler::CountWith(Range* range, size_t max_kernels,
                                                       const Work& prepare, const Work& call) {
  KERNELCAST_CUPTI_PARAMS(RangeProfiler_GetCounterDataSize, size);
  size.pRangeProfilerObject = range;
  size.pMetricNames = known_names_.data();
  size.numMetrics = known_names_.size();
  size.maxNumOfRanges = max_kernels;
  size.maxNumRangeTreeNodes = static_cast<uint32_t>(max_kernels);
  KC_RETURN_IF_ERROR(
      Check(api_.RangeGetCounterDataSize(&size), "cuptiRangeProfilerGetCounterDataSize"));
  std::vector<uint8_t> image(size.counterDataSize);
  KERNELCAST_CUPTI_PARAMS(RangeProfiler_CounterDataImage_Initialize, initialize);
  initialize.pRangeProfilerObject = range;
  initialize.counterDataSize = image.size();
  initialize.pCounterData = image.data();
  KC_RETURN_IF_ERROR(Check(api_.RangeCounterDataImageInitialize(&initialize),
                           "cuptiRangeProfilerCounterDataImageInitialize"));
  KERNELCAST_CUPTI_PARAMS(RangeProfiler_SetConfig, config);
  config.pRangeProfilerObject = range;
  config.configSize = config_.size();
  config.pConfig = config_.data();
  config.counterDataImageSize = image.size();
  config.pCounterDataImage = image.data();
  // One range per kernel: a range over several would include the gaps.
  config.range = CUPTI_AutoRange;
  config.replayMode = CUPTI_UserReplay;
  config.maxRangesPerPass = max_kernels;
  config.numNestingLevels = 1;
  config.minNestingLevel = 1;
  config.targetNestingLevel = 1;
  KC_RETURN_IF_ERROR(Check(api_.RangeSetConfig(&config), "cuptiRangeProfilerSetConfig"));
  CounterValues values;
  KC_ASSIGN_OR_RETURN(values.passes, RunPasses(range, prepare, call));
  KERNELCAST_CUPTI_PARAMS(RangeProfiler_DecodeData, decode);
  decode.pRangeProfilerObject = range;
  KC_RETURN_IF_ERROR(Check(api_.RangeDecodeData(&decode), "cuptiRangeProfilerDecodeData"));
  KC_RETURN_IF_ERROR(Evaluate(image, values));
  return values;
}

absl::StatusOr<CounterValues> CuptiProfiler::Count(CUdevice device, CUcontext context,
                                                   const std::vector<std::string>& metrics,
                                                   size_t max_kernels, const Work& prepare,
                                                   const Work& call) {
  KC_RETURN_IF_ERROR(Configure(device, context, metrics));
  KERNELCAST_CUPTI_PARAMS(RangeProfiler_Enable, enable);
  enable.ctx = context;
  KC_RETURN_IF_ERROR(Check(api_.RangeEnable(&enable), "cuptiRangeProfilerEnable"));
  auto values = CountWith(enable.pRangeProfilerObject, max_kernels, prepare, call);
  KERNELCAST_CUPTI_PARAMS(RangeProfiler_Disable, disable);
  disable.pRangeProfilerObject = enable.pRangeProfilerObject;
  api_.RangeDisable(&disable);
  return values;
}

}  // namespace

std::unique_ptr<Profiler> MakeCuptiProfiler(CuptiApi api) {
  return std::make_unique<CuptiProfiler>(std::move(api));
}

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_HAS_CUPTI_HEADERS
