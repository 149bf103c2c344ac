#include "services/worker/virtual_gpu/program.h"

namespace kernelcast::worker::virtual_gpu {

const Kernel* Program::Find(std::string_view name) const {
  for (const auto& kernel : kernels) {
    if (kernel->name == name) return kernel.get();
  }
  return nullptr;
}

}  // namespace kernelcast::worker::virtual_gpu
