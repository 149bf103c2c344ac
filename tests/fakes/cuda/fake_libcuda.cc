// The fake driver as a library, libcuda.so.1, for the real worker and the real runner. It is also
// the fake libcupti. Its
// configuration lies in the folder from which it is loaded, because a runner inherits little of the
// environment:
//
//   models     one line per device: the name of its model
//   broken.N   while the file exists, device N has failed
//
// CUDA_VISIBLE_DEVICES is a list of numbers. A cubin of the real compiler represents the fake cubin
// (fake_kernels.h) whose text its device code holds.

#include <cuda.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/worker/cuda/api/cuda_api.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/fake_cupti.h"

namespace kernelcast::testing {
namespace {

std::string OwnFolder() {
  static const int here = 0;
  Dl_info info{};
  dladdr(&here, &info);
  return std::filesystem::path(info.dli_fname).parent_path().string();
}

const worker::CudaApi& Driver() {
  static const bool ready = [] {
    std::vector<FakeDevice> all;
    std::ifstream models(OwnFolder() + "/models");
    for (std::string model; std::getline(models, model);) {
      const int number = static_cast<int>(all.size());
      all.push_back({model, number, absl::StrCat(OwnFolder(), "/broken.", number)});
    }
    std::vector<FakeDevice> shown = all;
    if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
      shown.clear();
      for (const std::string& name : std::vector<std::string>(absl::StrSplit(visible, ','))) {
        int number = -1;
        if (!absl::SimpleAtoi(name, &number) || number < 0 ||
            static_cast<size_t>(number) >= all.size()) {
          break;  // like the real driver
        }
        shown.push_back(all[static_cast<size_t>(number)]);
      }
    }
    FakeCuda::Instance().set_devices(std::move(shown));
    FakeCuda::Instance().set_real_time();
    return true;
  }();
  (void)ready;
  return FakeCuda::Api();
}

// For functions that the project looks up and never calls.
void NotThere() { std::abort(); }

template <class Function>
Function Resolve(Function function) {
  return function == nullptr ? reinterpret_cast<Function>(&NotThere) : function;
}

}  // namespace
}  // namespace kernelcast::testing

// Symbols are looked up once by dlsym after loading.
#define FAKE_QUOTED(text) #text
#define FAKE_EXPORT(member, symbol)                                            \
  extern "C" decltype(&symbol) fake_resolve_##member() {                       \
    return kernelcast::testing::Resolve(kernelcast::testing::Driver().member); \
  }                                                                            \
  extern "C" __attribute__((visibility("default"))) decltype(symbol) symbol    \
      __attribute__((ifunc(FAKE_QUOTED(fake_resolve_##member))));
KERNELCAST_CUDA_FUNCTIONS(FAKE_EXPORT)

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)
// The profiling library too, which shares the driver's state.
#define FAKE_EXPORT_CUPTI(member, symbol)                                              \
  extern "C" decltype(&symbol) fake_resolve_cupti_##member() {                         \
    return kernelcast::testing::Resolve(kernelcast::testing::FakeCupti::Api().member); \
  }                                                                                    \
  extern "C" __attribute__((visibility("default"))) decltype(symbol) symbol            \
      __attribute__((ifunc(FAKE_QUOTED(fake_resolve_cupti_##member))));
KERNELCAST_CUPTI_FUNCTIONS(FAKE_EXPORT_CUPTI)
#endif
