#include "services/worker/cuda/language/cuda/cuda_language.h"
#include "services/worker/cuda/language/cuda_host/cuda_host_language.h"
#include "services/worker/cuda/language/language.h"
#include "services/worker/cuda/language/pytorch/pytorch_language.h"
#include "services/worker/cuda/language/tilelang/tilelang_language.h"
#include "services/worker/cuda/language/triton/triton_language.h"

namespace kernelcast::worker {

std::span<const LanguageRow> AllLanguages() {
  static constexpr LanguageRow kRows[] = {
      {CandidateKind::kDeviceCuda, "device candidates", true, CudaLanguage::Open},
      {CandidateKind::kDeviceTriton, "Triton candidates", true, TritonLanguage::Open},
      {CandidateKind::kDeviceTilelang, "TileLang candidates", true, TilelangLanguage::Open},
      {CandidateKind::kHostNative, "host-launched candidates", false, CudaHostLanguage::Open},
      {CandidateKind::kPython, "PyTorch tasks", false, PytorchLanguage::Open},
  };
  return kRows;
}

}  // namespace kernelcast::worker
