#ifndef KERNELCAST_SERVICES_WORKER_CUDA_API_NVRTC_API_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_API_NVRTC_API_H_

#include <nvrtc.h>

#include <string>

#include "absl/status/statusor.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/api/shared_library.h"

namespace kernelcast::worker {

#define KERNELCAST_NVRTC_FUNCTIONS(X)                \
  X(Version, nvrtcVersion)                           \
  X(GetErrorString, nvrtcGetErrorString)             \
  X(GetNumSupportedArchs, nvrtcGetNumSupportedArchs) \
  X(GetSupportedArchs, nvrtcGetSupportedArchs)       \
  X(CreateProgram, nvrtcCreateProgram)               \
  X(DestroyProgram, nvrtcDestroyProgram)             \
  X(CompileProgram, nvrtcCompileProgram)             \
  X(GetProgramLogSize, nvrtcGetProgramLogSize)       \
  X(GetProgramLog, nvrtcGetProgramLog)               \
  X(GetPtxSize, nvrtcGetPTXSize)                     \
  X(GetPtx, nvrtcGetPTX)                             \
  X(GetCubinSize, nvrtcGetCUBINSize)                 \
  X(GetCubin, nvrtcGetCUBIN)

// The run-time compiler. A program must be compiled by one thread at a time.
struct NvrtcApi {
  std::string path;  // of the library
#define KERNELCAST_NVRTC_MEMBER(member, symbol) decltype(&::symbol) member = nullptr;
  KERNELCAST_NVRTC_FUNCTIONS(KERNELCAST_NVRTC_MEMBER)
#undef KERNELCAST_NVRTC_MEMBER
};

// Opens the toolkit's library. Opens its built-ins library from the same folder first, because
// NVRTC would otherwise search the system's folders for it. NOT_FOUND, UNIMPLEMENTED: as
// LoadCudaApi.
[[nodiscard]] absl::StatusOr<NvrtcApi> LoadNvrtcApi(const CudaToolkit& toolkit);

[[nodiscard]] absl::StatusOr<NvrtcApi> FillNvrtcApi(const SymbolLookup& lookup);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_API_NVRTC_API_H_
