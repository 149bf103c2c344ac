#include "services/worker/cuda/runner/host_object.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "services/worker/cuda/runner/sandbox.h"

namespace kernelcast::worker::cuda_runner {
namespace {

constexpr const char* kEntryName = "kernelcast_run";

std::string LoaderError() {
  const char* const error = dlerror();
  return error == nullptr ? "it cannot be loaded" : error;
}

}  // namespace

void HostCall::Add(const TensorRecord& record, uint64_t address, int device) {
  Tensor added;
  added.shape.assign(record.shape, record.shape + record.dimensions);
  // Device addresses are pointers in this process.
  added.tensor.data = reinterpret_cast<void*>(address);  // NOLINT
  added.tensor.device = DLDevice{kDLCUDA, device};
  added.tensor.ndim = static_cast<int32_t>(record.dimensions);
  added.tensor.dtype = DLDataType{static_cast<uint8_t>(record.dlpack_code),
                                  static_cast<uint8_t>(record.dlpack_bits), 1};
  tensors_.push_back(std::move(added));
}

std::unique_ptr<HostObject> HostObject::Load(int fd, const ObjectRecord& record,
                                             std::string& error) {
  char path[32];
  std::snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  void* const object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* const entry = object == nullptr ? nullptr : dlsym(object, kEntryName);
  link_map* map = nullptr;
  if (entry == nullptr || dlinfo(object, RTLD_DI_LINKMAP, &map) != 0) {
    error = LoaderError();
    return nullptr;
  }
  return std::unique_ptr<HostObject>(
      new HostObject(reinterpret_cast<Entry>(entry), map->l_addr, record));
}

void HostObject::Construct() {
  using Function = void (*)(int, char**, char**);
  static char name[] = "kernelcast";
  static char* arguments[] = {name, nullptr};
  static char* environment[] = {nullptr};
  if (record_.init_function != 0) {
    reinterpret_cast<Function>(base_ + record_.init_function)(1, arguments, environment);
  }
  const auto* const functions = reinterpret_cast<const uintptr_t*>(base_ + record_.init_array);
  for (uint64_t i = 0; i < record_.init_array_entries; ++i) {
    if (functions[i] != 0 && functions[i] != UINTPTR_MAX) {
      reinterpret_cast<Function>(functions[i])(1, arguments, environment);
    }
  }
}

int32_t HostObject::Call(const HostCall& call, void* stream) {
  // Rebuilt for each call: the previous one may have overwritten them.
  std::vector<DLTensor> tensors;
  std::vector<std::vector<int64_t>> shapes;
  tensors.reserve(call.tensors().size());
  shapes.reserve(call.tensors().size());
  for (const HostCall::Tensor& tensor : call.tensors()) {
    shapes.push_back(tensor.shape);
    tensors.push_back(tensor.tensor);
    tensors.back().shape = shapes.back().data();
  }
  const auto inputs = static_cast<int32_t>(call.inputs());
  return entry_(tensors.data(), inputs, tensors.data() + inputs,
                static_cast<int32_t>(tensors.size()) - inputs, stream);
}

std::unique_ptr<HostProgram> HostObjectLoader::Load(int fd, const ObjectRecord& record,
                                                    std::string& error) {
  return HostObject::Load(fd, record, error);
}

void HostObjectLoader::EnterSandbox(const ObjectRecord& record, int64_t used_bytes) {
  EnterHostSandbox(record.uid, used_bytes, static_cast<int64_t>(record.max_memory_bytes), kSocketFd,
                   own_namespaces_);
}

}  // namespace kernelcast::worker::cuda_runner
