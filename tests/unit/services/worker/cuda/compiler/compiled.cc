#include "tests/unit/services/worker/cuda/compiler/compiled.h"

#include <catch2/catch.hpp>

#include "services/worker/cuda/api/nvrtc_api.h"

namespace kernelcast::worker {
namespace {

const NvrtcApi* Api() {
  static const NvrtcApi* const api = []() -> const NvrtcApi* {
    const auto toolkit = FindCudaToolkit({KERNELCAST_CUDA_HOME});
    if (!toolkit.ok()) {
      return nullptr;
    }
    const auto loaded = LoadNvrtcApi(*toolkit);
    return loaded.ok() ? new NvrtcApi(*loaded) : nullptr;
  }();
  return api;
}

}  // namespace

bool HaveNvrtc() {
  if (Api() == nullptr) {
    WARN("no NVRTC next to the headers of this build: nothing is tested");
  }
  return Api() != nullptr;
}

Compiled CompileInProcess(const std::string& source, const std::string& architecture,
                          const std::vector<std::string>& flags) {
  const NvrtcApi& api = *Api();
  nvrtcProgram program = nullptr;
  REQUIRE(api.CreateProgram(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr) ==
          NVRTC_SUCCESS);
  const std::string arch = "-arch=" + architecture;
  std::vector<const char*> options = {arch.c_str(), "-Xptxas=-v"};
  for (const std::string& flag : flags) {
    options.push_back(flag.c_str());
  }
  const nvrtcResult result =
      api.CompileProgram(program, static_cast<int>(options.size()), options.data());
  const auto get = [&](auto size_of, auto content_of) {
    size_t size = 0;
    REQUIRE(size_of(program, &size) == NVRTC_SUCCESS);
    std::string content(size, '\0');
    REQUIRE(content_of(program, content.data()) == NVRTC_SUCCESS);
    return content;
  };
  Compiled compiled;
  compiled.log = get(api.GetProgramLogSize, api.GetProgramLog);
  INFO(compiled.log);
  REQUIRE(result == NVRTC_SUCCESS);
  compiled.ptx = get(api.GetPtxSize, api.GetPtx);
  compiled.cubin = get(api.GetCubinSize, api.GetCubin);
  api.DestroyProgram(&program);
  return compiled;
}

}  // namespace kernelcast::worker
