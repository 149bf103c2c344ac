#ifndef KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_HOST_OBJECT_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_HOST_OBJECT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "services/worker/cuda/runner/host_program.h"
#include "services/worker/cuda/runner/protocol.h"

namespace kernelcast::worker::cuda_runner {

// An untrusted shared object. Loading runs none of its code; then the process drops its privileges,
// and then its constructors run.
class HostObject final : public HostProgram {
 public:
  // As HostLoader::Load.
  static std::unique_ptr<HostObject> Load(int fd, const ObjectRecord& record, std::string& error);

  // Runs the constructors.
  void Construct() override;
  int32_t Call(const HostCall& call, void* stream) override;

 private:
  using Entry = int32_t (*)(const DLTensor*, int32_t, const DLTensor*, int32_t, void*);
  HostObject(Entry entry, uint64_t base, const ObjectRecord& record)
      : entry_(entry), base_(base), record_(record) {}

  const Entry entry_;
  const uint64_t base_;
  const ObjectRecord record_;
};

// Loads shared objects.
class HostObjectLoader final : public HostLoader {
 public:
  // `own_namespaces`: whether the process is in its own namespaces (sandbox::LeaveNamespaces).
  void set_own_namespaces(bool own) { own_namespaces_ = own; }

  std::unique_ptr<HostProgram> Load(int fd, const ObjectRecord& record,
                                    std::string& error) override;
  void EnterSandbox(const ObjectRecord& record, int64_t used_bytes) override;

 private:
  bool own_namespaces_ = false;
};

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_HOST_OBJECT_H_
