#include "services/worker/cuda/api/cuda_api.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

absl::StatusCode Code(CUresult result) {
  if (IsSticky(result)) {
    return absl::StatusCode::kAborted;
  }
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return absl::StatusCode::kResourceExhausted;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: return absl::StatusCode::kInvalidArgument;
    case CUDA_ERROR_NOT_FOUND: return absl::StatusCode::kNotFound;
    case CUDA_ERROR_NOT_PERMITTED: return absl::StatusCode::kPermissionDenied;
    case CUDA_ERROR_NOT_SUPPORTED: return absl::StatusCode::kUnimplemented;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_DEVICE_NOT_LICENSED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    case CUDA_ERROR_OPERATING_SYSTEM:
    case CUDA_ERROR_NOT_READY: return absl::StatusCode::kUnavailable;
    default: return absl::StatusCode::kInternal;
  }
}

}  // namespace

std::string UuidText(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    absl::StrAppend(&text, i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", digits);
  }
  return text;
}

absl::StatusOr<CudaApi> FillCudaApi(const SymbolLookup& lookup) {
  CudaApi api;
  TableFiller filler(lookup);
#define KERNELCAST_CUDA_STRING(symbol) #symbol
#define KERNELCAST_CUDA_FILL(member, symbol) \
  filler.Fill(api.member, KERNELCAST_CUDA_STRING(symbol));
  KERNELCAST_CUDA_FUNCTIONS(KERNELCAST_CUDA_FILL)
#undef KERNELCAST_CUDA_FILL
#undef KERNELCAST_CUDA_STRING
  KC_RETURN_IF_ERROR(filler.Finish("the NVIDIA driver"));
  return api;
}

absl::StatusOr<const CudaApi*> LoadCudaApi() {
  static const auto* const loaded = new absl::StatusOr<CudaApi>([]() -> absl::StatusOr<CudaApi> {
    const std::string names[] = {kLibrary};
    KC_ASSIGN_OR_RETURN(const SharedLibrary library, OpenLibrary(names));
    return FillCudaApi(library.lookup);
  }());
  KC_RETURN_IF_ERROR(loaded->status());
  return &**loaded;
}

absl::Status CudaStatus(const CudaApi& api, CUresult result, std::string_view what) {
  if (result == CUDA_SUCCESS) {
    return absl::OkStatus();
  }
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.GetErrorName == nullptr || api.GetErrorName(result, &name) != CUDA_SUCCESS) {
    name = nullptr;
  }
  if (api.GetErrorString == nullptr || api.GetErrorString(result, &text) != CUDA_SUCCESS) {
    text = nullptr;
  }
  return absl::Status(
      Code(result),
      absl::StrCat(std::string(what), ": ",
                   name == nullptr ? absl::StrCat("CUDA error ", static_cast<int>(result)) : name,
                   text == nullptr ? "" : ": ", text == nullptr ? "" : text));
}

bool IsSticky(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_EXTERNAL_DEVICE: return true;
    default: return false;
  }
}

}  // namespace kernelcast::worker
