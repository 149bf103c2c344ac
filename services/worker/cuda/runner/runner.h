#ifndef KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_RUNNER_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_RUNNER_H_

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "services/worker/cuda/api/cuda_api.h"
#include "services/worker/cuda/runner/host_object.h"
#include "services/worker/cuda/runner/host_program.h"
#include "services/worker/cuda/runner/profile_report.h"
#include "services/worker/cuda/runner/profiler.h"
#include "services/worker/cuda/runner/program_table.h"
#include "services/worker/cuda/runner/protocol.h"

namespace kernelcast::worker::cuda_runner {

// The runner's side of the protocol, on the first device that the driver shows. Not thread-safe.
// The destructor waits for work on the device, possibly for ever.
class Runner {
 public:
  // `api` and `clock` must outlive the runner.
  Runner(const CudaApi& api, const Clock& clock) : api_(api), clock_(clock) {}
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Enables kTrace and kCount. Call it before Start; the profiler must outlive the runner.
  void set_profiler(Profiler* profiler) { profiler_ = profiler; }
  // Whether the process is in its own namespaces (sandbox::LeaveNamespaces).
  void set_own_namespaces(bool own) { object_loader_.set_own_namespaces(own); }
  // Loads host programs of another kind than shared objects. The loader must outlive the runner.
  void set_host_loader(HostLoader* loader) { loader_ = loader; }
  // The stream of the judge's calls. Valid after Start.
  CUstream stream() const { return stream_; }

  // Creates the context. If it returns false, every request is answered with the failure.
  bool Start();

  // Answers one request. `fd` is the attached file or -1; the caller keeps it. The answer is valid
  // until the next call.
  struct Answer {
    const Reply& reply;
    std::span<const float> values;
  };
  Answer Handle(std::span<const std::byte> packet, int fd);

  // Answers requests from `socket` until its other end is closed.
  void Serve(int socket);

 private:
  struct Arena {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    size_t padding = 0;  // mapped before the arena
  };
  struct Module {
    CUmodule module = nullptr;
    std::vector<CUfunction> kernels;
  };
  // A launch prepared for the driver, or a copy: then `values` are to, from and bytes.
  struct ReadyLaunch {
    CUfunction function = nullptr;  // null: a copy
    CUlaunchConfig config{};
    std::vector<CUlaunchAttribute> attributes;
    std::vector<uint64_t> values;
    std::vector<void*> parameters;
  };
  struct ReadyProgram {
    std::vector<ReadyLaunch> launches;
    HostCall call;
    uint32_t arenas = 0;          // bit set of the arenas whose addresses it holds
    CUgraphExec graph = nullptr;  // of the launches, once it was replayed
  };

  // Returns whether the call succeeded; a failure is recorded in reply_.
  bool Check(CUresult result, const char* where);
  bool Refuse(const std::string& why);
  // Finishes a request: `ok` is the result of enqueueing, `ended` that of the work itself. Returns
  // whether both succeeded; the first failure is reported.
  bool Finish(bool ok, CUresult ended);

  bool Do(std::span<const std::byte> packet, int fd);
  bool Map(const Request& request, int fd);
  void Unmap(uint32_t slot);
  bool Load(const Request& request, int fd);
  bool LoadInto(Module& module, const Request& request, std::span<const std::byte> file);
  void Unload(uint32_t slot);
  bool LoadObject(std::span<const ObjectRecord> records, int fd);
  bool TakePrograms(const Request& request, int fd);
  bool MakeReady(const Program& program, const Module& module, ReadyProgram& ready_program);
  bool MakeLaunchReady(const ProgramLaunch& launch, const Module& module, ReadyLaunch& ready);
  bool MakeCallReady(const Program& program, ReadyProgram& ready_program);
  bool Enqueue(ReadyProgram& program, bool replay = false);
  bool Launch(const ReadyProgram& program);
  // Makes a graph of the launches.
  bool Capture(ReadyProgram& program);
  void DropPrograms(uint32_t slot);
  void Deliver();
  bool Run(const Request& request, std::span<const RunRecord> runs);
  bool Time(const Request& request, std::span<const SampleRecord> samples,
            std::span<const PoisonRecord> poisons);
  bool Poison(const PoisonRecord& record);
  // Defined in runner_profile.cc.
  bool Trace(const Request& request, std::span<const std::byte> packet, int fd);
  bool Count(const Request& request, std::span<const std::byte> packet, int fd);
  bool LoadSweep();
  bool Sweep();
  bool WriteReport(std::span<const std::byte> report, int fd);
  ReadyProgram* Find(uint32_t slot, uint32_t program);

  const CudaApi& api_;
  const Clock& clock_;
  Profiler* profiler_ = nullptr;
  HostObjectLoader object_loader_;
  HostLoader* loader_ = &object_loader_;
  // Reads the memory that flushes the cache, so that the cache holds no unwritten data.
  Module sweep_;
  bool started_ = false;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr flush_ = 0;
  size_t flush_bytes_ = 0;
  std::array<Arena, kMaxArenas> arenas_{};
  std::array<Module, kSlots> modules_{};
  std::unique_ptr<HostProgram> object_;
  uint64_t calls_taken_ = 0;
  bool delivers_ = false;  // the last call's results are not yet delivered
  bool sealed_ = false;
  std::array<std::vector<ReadyProgram>, kSlots> programs_;
  std::array<CUevent, 3 * kMaxSamples> events_{};
  Reply reply_{};
  std::vector<float> values_;
};

}  // namespace kernelcast::worker::cuda_runner

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_RUNNER_RUNNER_H_
