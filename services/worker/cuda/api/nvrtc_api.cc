#include "services/worker/cuda/api/nvrtc_api.h"

#include "common/base/status.h"

namespace kernelcast::worker {

absl::StatusOr<NvrtcApi> FillNvrtcApi(const SymbolLookup& lookup) {
  NvrtcApi api;
  TableFiller filler(lookup);
#define KERNELCAST_NVRTC_FILL(member, symbol) filler.Fill(api.member, #symbol);
  KERNELCAST_NVRTC_FUNCTIONS(KERNELCAST_NVRTC_FILL)
#undef KERNELCAST_NVRTC_FILL
  KC_RETURN_IF_ERROR(filler.Finish("libnvrtc"));
  return api;
}

absl::StatusOr<NvrtcApi> LoadNvrtcApi(const CudaToolkit& toolkit) {
  const std::string builtins[] = {toolkit.nvrtc_builtins};
  KC_RETURN_IF_ERROR(OpenLibrary(builtins).status());
  const std::string names[] = {toolkit.nvrtc_library};
  KC_ASSIGN_OR_RETURN(const SharedLibrary library, OpenLibrary(names));
  KC_ASSIGN_OR_RETURN(NvrtcApi api, FillNvrtcApi(library.lookup));
  api.path = library.path;
  return api;
}

}  // namespace kernelcast::worker
