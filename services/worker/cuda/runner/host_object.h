#ifndef KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_HOST_OBJECT_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_HOST_OBJECT_H_

#include <dlpack/dlpack.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "services/worker/cuda/runner/protocol.h"

namespace kernelcast::worker::cuda_runner {

// One call of kernelcast_run: its tensors, inputs first, in device memory.
class HostCall {
 public:
  void Add(const TensorRecord& record, uint64_t address, int device);
  void set_inputs(uint32_t inputs) { inputs_ = inputs; }
  bool empty() const { return tensors_.empty(); }

 private:
  friend class HostObject;
  struct Tensor {
    DLTensor tensor{};
    std::vector<int64_t> shape;
  };
  std::vector<Tensor> tensors_;
  uint32_t inputs_ = 0;
};

// An untrusted shared object, which stays in this process. Loading runs none of its code; then the
// process drops its privileges, and then its constructors run.
class HostObject {
 public:
  struct Limits {
    uint32_t uid = 0;
    int64_t max_memory_bytes = 0;
  };

  // `fd` is the object's file. Returns nullptr and sets `error` on failure.
  static std::unique_ptr<HostObject> Load(int fd, const ObjectRecord& record, std::string& error);
  // Runs the constructors. Call it once, without holding locks: it may not return.
  void Construct();

  // Returns the value of the entry. `stream` is a CUstream.
  int32_t Call(const HostCall& call, void* stream) const;

 private:
  using Entry = int32_t (*)(const DLTensor*, int32_t, const DLTensor*, int32_t, void*);
  HostObject(Entry entry, uint64_t base, const ObjectRecord& record)
      : entry_(entry), base_(base), record_(record) {}

  const Entry entry_;
  const uint64_t base_;
  const ObjectRecord record_;
};

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_HOST_OBJECT_H_
