#ifndef KERNELCAST_SERVICES_WORKER_CUDA_API_CUPTI_API_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_API_CUPTI_API_H_

// NVIDIA's profiling library. Its headers may be missing even if the other CUDA headers exist. Then
// this header declares nothing, and the build reads no counters.
#if defined(KERNELCAST_HAS_CUPTI_HEADERS)

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_result.h>
#include <cupti_target.h>
#include <cupti_version.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/cuda/api/shared_library.h"

namespace kernelcast::worker {

#define KERNELCAST_CUPTI_FUNCTIONS(X)                                              \
  X(GetVersion, cuptiGetVersion)                                                   \
  X(GetResultString, cuptiGetResultString)                                         \
  X(ActivityRegisterCallbacks, cuptiActivityRegisterCallbacks)                     \
  X(ActivityEnable, cuptiActivityEnable)                                           \
  X(ActivityDisable, cuptiActivityDisable)                                         \
  X(ActivityFlushAll, cuptiActivityFlushAll)                                       \
  X(ActivityGetNextRecord, cuptiActivityGetNextRecord)                             \
  X(DeviceGetChipName, cuptiDeviceGetChipName)                                     \
  X(ProfilerInitialize, cuptiProfilerInitialize)                                   \
  X(ProfilerDeviceSupported, cuptiProfilerDeviceSupported)                         \
  X(ProfilerGetCounterAvailability, cuptiProfilerGetCounterAvailability)           \
  X(HostInitialize, cuptiProfilerHostInitialize)                                   \
  X(HostDeinitialize, cuptiProfilerHostDeinitialize)                               \
  X(HostGetMetricProperties, cuptiProfilerHostGetMetricProperties)                 \
  X(HostConfigAddMetrics, cuptiProfilerHostConfigAddMetrics)                       \
  X(HostGetConfigImageSize, cuptiProfilerHostGetConfigImageSize)                   \
  X(HostGetConfigImage, cuptiProfilerHostGetConfigImage)                           \
  X(HostEvaluateToGpuValues, cuptiProfilerHostEvaluateToGpuValues)                 \
  X(RangeEnable, cuptiRangeProfilerEnable)                                         \
  X(RangeDisable, cuptiRangeProfilerDisable)                                       \
  X(RangeGetCounterDataSize, cuptiRangeProfilerGetCounterDataSize)                 \
  X(RangeCounterDataImageInitialize, cuptiRangeProfilerCounterDataImageInitialize) \
  X(RangeSetConfig, cuptiRangeProfilerSetConfig)                                   \
  X(RangeStart, cuptiRangeProfilerStart)                                           \
  X(RangeStop, cuptiRangeProfilerStop)                                             \
  X(RangeDecodeData, cuptiRangeProfilerDecodeData)                                 \
  X(RangeGetCounterDataInfo, cuptiRangeProfilerGetCounterDataInfo)

// Use from one thread at a time.
struct CuptiApi {
  std::string path;  // of the library
#define KERNELCAST_CUPTI_MEMBER(member, symbol) decltype(&::symbol) member = nullptr;
  KERNELCAST_CUPTI_FUNCTIONS(KERNELCAST_CUPTI_MEMBER)
#undef KERNELCAST_CUPTI_MEMBER
};

// Opens the library at `path`, the one in CudaToolkit. Opens libnvperf_host from the same folder
// first, because the library would otherwise search the system's folders for it. NOT_FOUND,
// UNIMPLEMENTED: as LoadCudaApi.
[[nodiscard]] absl::StatusOr<CuptiApi> LoadCuptiApi(const std::string& path);

[[nodiscard]] absl::StatusOr<CuptiApi> FillCuptiApi(const SymbolLookup& lookup);

// Returns OK, or "`what`: CUPTI_ERROR_NAME" and what it means to the operator:
//   PERMISSION_DENIED     counters are restricted to administrators
//   UNIMPLEMENTED         never available on this device: MIG, a virtual GPU, ...
//   UNAVAILABLE           another profiler uses the counters now
//   INVALID_ARGUMENT      the device has no such metric
//   INTERNAL              anything else
[[nodiscard]] absl::Status CuptiStatus(const CuptiApi& api, CUptiResult result,
                                       std::string_view what);

// The record of a kernel. Newer library versions append fields.
using CuptiKernelRecord = CUpti_ActivityKernel9;

}  // namespace kernelcast::worker

#endif  // KERNELCAST_HAS_CUPTI_HEADERS

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_API_CUPTI_API_H_
