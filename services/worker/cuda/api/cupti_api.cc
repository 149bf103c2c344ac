#include "services/worker/cuda/api/cupti_api.h"

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)

#include <cstddef>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

#if CUPTI_API_VERSION >= 130000
// The fields that are read have not moved in newer records.
static_assert(offsetof(CUpti_ActivityKernel10, name) == offsetof(CuptiKernelRecord, name) &&
              offsetof(CUpti_ActivityKernel10, end) == offsetof(CuptiKernelRecord, end));
#endif

struct Meaning {
  absl::StatusCode code;
  const char* text;  // or ""
};

Meaning MeaningOf(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      return {absl::StatusCode::kPermissionDenied,
              "the driver lets administrators only read counters (ERR_NVGPUCTRPERM)"};
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return {absl::StatusCode::kPermissionDenied, "profiling is not enabled for this virtual GPU"};
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
      return {absl::StatusCode::kUnimplemented, "a virtual GPU has no counters"};
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
      return {absl::StatusCode::kUnimplemented, "a MIG instance has no counters"};
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
      return {absl::StatusCode::kUnimplemented,
              "there are no counters in confidential-computing mode"};
    case CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_NOT_SUPPORTED: return {absl::StatusCode::kUnimplemented, ""};
    case CUPTI_ERROR_HARDWARE_BUSY:
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return {absl::StatusCode::kUnavailable, "another profiler is at work on the device"};
    case CUPTI_ERROR_INVALID_METRIC_NAME: return {absl::StatusCode::kInvalidArgument, ""};
    default: return {absl::StatusCode::kInternal, ""};
  }
}

}  // namespace

absl::StatusOr<CuptiApi> FillCuptiApi(const SymbolLookup& lookup) {
  CuptiApi api;
  TableFiller filler(lookup);
#define KERNELCAST_CUPTI_FILL(member, symbol) filler.Fill(api.member, #symbol);
  KERNELCAST_CUPTI_FUNCTIONS(KERNELCAST_CUPTI_FILL)
#undef KERNELCAST_CUPTI_FILL
  KC_RETURN_IF_ERROR(filler.Finish("libcupti"));
  return api;
}

absl::StatusOr<CuptiApi> LoadCuptiApi(const std::string& path) {
  const std::string host[] = {
      (std::filesystem::path(path).parent_path() / "libnvperf_host.so").string()};
  // Optional: tracing kernels works without it.
  (void)OpenLibrary(host);
  const std::string names[] = {path};
  KC_ASSIGN_OR_RETURN(const SharedLibrary library, OpenLibrary(names));
  KC_ASSIGN_OR_RETURN(CuptiApi api, FillCuptiApi(library.lookup));
  api.path = library.path;
  return api;
}

absl::Status CuptiStatus(const CuptiApi& api, CUptiResult result, std::string_view what) {
  if (result == CUPTI_SUCCESS) {
    return absl::OkStatus();
  }
  const char* name = nullptr;
  if (api.GetResultString == nullptr || api.GetResultString(result, &name) != CUPTI_SUCCESS) {
    name = nullptr;
  }
  const Meaning meaning = MeaningOf(result);
  return absl::Status(
      meaning.code,
      absl::StrCat(std::string(what), ": ",
                   name == nullptr ? absl::StrCat("CUPTI error ", static_cast<int>(result)) : name,
                   *meaning.text == '\0' ? "" : ": ", meaning.text));
}

}  // namespace kernelcast::worker

#endif  // KERNELCAST_HAS_CUPTI_HEADERS
