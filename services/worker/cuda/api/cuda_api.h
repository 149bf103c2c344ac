#ifndef KERNELCAST_SERVICES_WORKER_CUDA_API_CUDA_API_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_API_CUDA_API_H_

#include <cuda.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/worker/cuda/api/shared_library.h"

namespace kernelcast::worker {

// Member of CudaApi, function of the driver. cuda.h renames many functions by macro to the version
// that it declares (cuMemAlloc is cuMemAlloc_v2); the renamed symbol is looked up.
#define KERNELCAST_CUDA_FUNCTIONS(X)                              \
  X(Init, cuInit)                                                 \
  X(DriverGetVersion, cuDriverGetVersion)                         \
  X(GetErrorName, cuGetErrorName)                                 \
  X(GetErrorString, cuGetErrorString)                             \
  X(DeviceGetCount, cuDeviceGetCount)                             \
  X(DeviceGet, cuDeviceGet)                                       \
  X(DeviceGetAttribute, cuDeviceGetAttribute)                     \
  X(DeviceGetName, cuDeviceGetName)                               \
  X(DeviceGetUuid, cuDeviceGetUuid)                               \
  X(DeviceTotalMem, cuDeviceTotalMem)                             \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)             \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease)           \
  X(DevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags)         \
  X(CtxSetCurrent, cuCtxSetCurrent)                               \
  X(CtxSynchronize, cuCtxSynchronize)                             \
  X(CtxSetLimit, cuCtxSetLimit)                                   \
  X(CtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache)       \
  X(ModuleLoadData, cuModuleLoadData)                             \
  X(ModuleUnload, cuModuleUnload)                                 \
  X(ModuleGetFunction, cuModuleGetFunction)                       \
  X(FuncGetAttribute, cuFuncGetAttribute)                         \
  X(FuncGetParamInfo, cuFuncGetParamInfo)                         \
  X(FuncSetAttribute, cuFuncSetAttribute)                         \
  X(LaunchKernel, cuLaunchKernel)                                 \
  X(LaunchKernelEx, cuLaunchKernelEx)                             \
  X(StreamCreate, cuStreamCreate)                                 \
  X(StreamDestroy, cuStreamDestroy)                               \
  X(StreamSynchronize, cuStreamSynchronize)                       \
  X(EventCreate, cuEventCreate)                                   \
  X(EventDestroy, cuEventDestroy)                                 \
  X(EventRecord, cuEventRecord)                                   \
  X(EventSynchronize, cuEventSynchronize)                         \
  X(EventElapsedTime, cuEventElapsedTime)                         \
  X(MemAlloc, cuMemAlloc)                                         \
  X(MemFree, cuMemFree)                                           \
  X(MemGetInfo, cuMemGetInfo)                                     \
  X(MemsetD8Async, cuMemsetD8Async)                               \
  X(MemsetD32Async, cuMemsetD32Async)                             \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync)                           \
  X(MemcpyDtoHAsync, cuMemcpyDtoHAsync)                           \
  X(MemcpyDtoDAsync, cuMemcpyDtoDAsync)                           \
  X(MemCreate, cuMemCreate)                                       \
  X(MemRelease, cuMemRelease)                                     \
  X(MemExportToShareableHandle, cuMemExportToShareableHandle)     \
  X(MemImportFromShareableHandle, cuMemImportFromShareableHandle) \
  X(MemAddressReserve, cuMemAddressReserve)                       \
  X(MemAddressFree, cuMemAddressFree)                             \
  X(MemMap, cuMemMap)                                             \
  X(MemUnmap, cuMemUnmap)                                         \
  X(MemSetAccess, cuMemSetAccess)                                 \
  X(MemGetAllocationGranularity, cuMemGetAllocationGranularity)   \
  X(StreamBeginCapture, cuStreamBeginCapture)                     \
  X(StreamEndCapture, cuStreamEndCapture)                         \
  X(GraphInstantiateWithFlags, cuGraphInstantiateWithFlags)       \
  X(GraphLaunch, cuGraphLaunch)                                   \
  X(GraphExecDestroy, cuGraphExecDestroy)                         \
  X(GraphDestroy, cuGraphDestroy)

// The driver's functions. As thread-safe as the driver; the current context is per thread.
struct CudaApi {
#define KERNELCAST_CUDA_MEMBER(member, symbol) decltype(&::symbol) member = nullptr;
  KERNELCAST_CUDA_FUNCTIONS(KERNELCAST_CUDA_MEMBER)
#undef KERNELCAST_CUDA_MEMBER
};

// Opens the driver's library at the first call, without initialising it. NOT_FOUND: no driver.
// UNIMPLEMENTED: the driver lacks functions, which the message names. The table lives as long as
// the process.
[[nodiscard]] absl::StatusOr<const CudaApi*> LoadCudaApi();

// Fills the table from `lookup`. UNIMPLEMENTED: as above.
[[nodiscard]] absl::StatusOr<CudaApi> FillCudaApi(const SymbolLookup& lookup);

// Returns OK, or "`what`: CUDA_ERROR_NAME: text" with
//   RESOURCE_EXHAUSTED    out of memory
//   INVALID_ARGUMENT      the request can never work: arguments, image, launch too large
//   ABORTED               a kernel failed; the context is unusable (see IsSticky)
//   NOT_FOUND             no such symbol
//   PERMISSION_DENIED     not permitted
//   UNIMPLEMENTED         not supported here
//   UNAVAILABLE           no device, or it cannot be used now
//   INTERNAL              anything else
[[nodiscard]] absl::Status CudaStatus(const CudaApi& api, CUresult result, std::string_view what);

// Formats a UUID as NVIDIA's tools do: "GPU-01234567-89ab-...".
std::string UuidText(const CUuuid& uuid);

// Whether every later call in the context fails with the same error.
bool IsSticky(CUresult result);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_API_CUDA_API_H_
