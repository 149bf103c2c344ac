#ifndef KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_HOST_PROGRAM_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_HOST_PROGRAM_H_

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "services/worker/cuda/runner/protocol.h"

namespace kernelcast::worker::cuda_runner {

// One call of a host program: its tensors, inputs first, in device memory.
class HostCall {
 public:
  struct Tensor {
    DLTensor tensor{};  // without its shape
    std::vector<int64_t> shape;
  };

  void Add(const TensorRecord& record, uint64_t address, int device);
  void set_inputs(uint32_t inputs) { inputs_ = inputs; }
  // Distinct for each call that a process takes.
  void set_id(uint64_t id) { id_ = id; }
  void set_task_case(uint32_t task_case) { task_case_ = task_case; }

  bool empty() const { return tensors_.empty(); }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  uint32_t inputs() const { return inputs_; }
  uint64_t id() const { return id_; }
  // Which of a Python task's cases it is.
  uint32_t task_case() const { return task_case_; }

 private:
  std::vector<Tensor> tensors_;
  uint32_t inputs_ = 0;
  uint64_t id_ = 0;
  uint32_t task_case_ = 0;
};

// Untrusted code on the host that launches by itself, and stays in this process.
class HostProgram {
 public:
  virtual ~HostProgram() = default;

  // Runs its code for the first time, in the sandbox. Call it once, without holding locks: it may
  // not return.
  virtual void Construct() = 0;
  // Returns the value of its entry. `stream` is a CUstream.
  virtual int32_t Call(const HostCall& call, void* stream) = 0;
  // Does the same by a CUDA graph, which it captures the first time. Returns not 0 if it cannot.
  virtual int32_t Replay(const HostCall&) { return -1; }
  // Enqueues copies of the last call's results to its outputs. Not timed.
  virtual void Deliver() {}
};

// Loads host programs and closes the sandbox around them.
class HostLoader {
 public:
  virtual ~HostLoader() = default;

  // `fd` is the program's file. Runs none of its code. Returns nullptr and sets `error` on failure.
  virtual std::unique_ptr<HostProgram> Load(int fd, const ObjectRecord& record,
                                            std::string& error) = 0;
  // `used_bytes`: private memory before the program was loaded.
  virtual void EnterSandbox(const ObjectRecord& record, int64_t used_bytes) = 0;
  // Called before the first timed call: what only building code needs is no longer permitted.
  virtual void Seal() {}
};

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_HOST_PROGRAM_H_
