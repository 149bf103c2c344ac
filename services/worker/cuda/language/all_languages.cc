#include "services/worker/cuda/language/cuda/cuda_language.h"
#include "services/worker/cuda/language/cuda_host/cuda_host_language.h"
#include "services/worker/cuda/language/language.h"
#include "services/worker/cuda/language/pytorch/pytorch_language.h"
#include "services/worker/cuda/language/tilelang/tilelang_language.h"
#include "services/worker/cuda/language/triton/triton_language.h"

namespace kernelcast::worker {

std::span<const LanguageRow> AllLanguages() {
  static constexpr LanguageRow kRows[] = {
      {CandidateKind::kDeviceCuda, "device candidates", CudaLanguage::Open},
      {CandidateKind::kDeviceTriton, "Triton candidates", TritonLanguage::Open},
      {CandidateKind::kDeviceTilelang, "TileLang candidates", TilelangLanguage::Open},
      {CandidateKind::kHostNative, "host-launched candidates", CudaHostLanguage::Open},
      {CandidateKind::kPython, "PyTorch tasks", PytorchLanguage::Open},
  };
  return kRows;
}

}  // namespace kernelcast::worker
