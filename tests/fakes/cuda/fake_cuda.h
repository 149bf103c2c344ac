#ifndef KERNELCAST_TESTS_FAKES_CUDA_FAKE_CUDA_H_
#define KERNELCAST_TESTS_FAKES_CUDA_FAKE_CUDA_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "services/worker/cuda/api/cuda_api.h"

namespace kernelcast::testing {

struct FakeKernel;

// A driver with one device whose memory is this process's and whose streams run at once. Memory
// that is shared lives in memory files, so that a fake in another process can map it. There is one
// to a process, as there is of the real one; for one thread at a time.
//
// A "cubin" is text (see fake_kernels.h) that says which built-in functions stand for its kernels.
// Time passes only by work: on the device, which events read, and on the host, whose clock this
// is.
class FakeCuda {
 public:
  static constexpr int kL2Bytes = 4096;

  static FakeCuda& Instance();
  // Functions that the project does not call are null.
  static const worker::CudaApi& Api();

  // A driver as new. What was held of the one before must be gone.
  void Reset();

  // The call number `nth` from now, from 1, of a function (a member of CudaApi) and all after it do
  // not do what they should: they fail, or end the process, or never return.
  enum class Effect { kFail, kFailOnce, kExit, kHang };
  void Inject(const std::string& function, int nth, Effect effect,
              CUresult error = CUDA_ERROR_UNKNOWN);
  // Bytes that buffers and shared memory can have in all.
  void set_memory_bytes(uint64_t bytes) { memory_bytes_ = bytes; }

  FakeClock& clock() { return clock_; }

  // What has been made and not been given back: contexts retained, streams, events, modules,
  // buffers, handles and mappings of shared memory, reserved addresses.
  std::map<std::string, int> Held() const;
  // Calls that no correct program makes: memory freed twice or without a context, ...
  const std::vector<std::string>& misuse() const { return misuse_; }
  int calls(const std::string& function) const;

  // For kernels. The memory at `address`, or null where it is not all there or cannot be written.
  std::byte* Memory(CUdeviceptr address, size_t bytes, bool to_write);
  // The address as far into the arena that was mapped next as `address` is into its own.
  CUdeviceptr InNextArena(CUdeviceptr address) const;
  // Time passes: on the device and so on the host, and on the host alone.
  void Work(double device_ns, double host_only_ns = 0);
  // For profilers: told of every kernel that was launched, with when it began and what it took.
  struct Launched {
    std::string name;
    double start_ns = 0;
    double duration_ns = 0;
  };
  std::function<void(const Launched&)> on_launch;
  // Time that passes on the device before memory is next filled.
  void Leave(double device_ns) { left_ns_ += device_ns; }

 private:
  friend class FakeDriver;
  struct Block {
    std::byte* data = nullptr;
    size_t bytes = 0;
    bool shared = false;
    bool readable = true;
    bool writable = true;
    bool mapped = true;
    uint64_t number = 0;  // in the order of their making
  };
  struct Handle {
    int fd = -1;
    size_t bytes = 0;
    bool imported = false;
  };
  struct Module {
    std::vector<std::unique_ptr<FakeKernel>> kernels;
  };
  struct Event {
    double device_ns = 0;
  };
  struct Fault {
    int at = 0;
    Effect effect = Effect::kFail;
    CUresult error = CUDA_ERROR_UNKNOWN;
  };

  FakeCuda() = default;
  // Counts the call; what it is to return at once, or success.
  CUresult Enter(const char* function, bool needs_context = true);
  CUresult Misuse(const std::string& what, CUresult result = CUDA_ERROR_INVALID_VALUE);
  CUresult Launch(CUfunction function, void** parameters);
  uint64_t UsedBytes() const;

  int retained_ = 0;
  CUresult lost_ = CUDA_SUCCESS;
  double device_ns_ = 0;
  double left_ns_ = 0;
  FakeClock clock_;
  uint64_t memory_bytes_ = uint64_t{1} << 30;
  uint64_t numbers_ = 0;
  std::map<CUdeviceptr, Block> blocks_;
  std::map<CUmemGenericAllocationHandle, Handle> handles_;
  std::map<CUmodule, std::unique_ptr<Module>> modules_;
  std::set<CUfunction> functions_;
  std::map<CUevent, std::unique_ptr<Event>> events_;
  std::set<CUstream> streams_;
  std::map<std::string, int, std::less<>> calls_;
  std::map<std::string, Fault, std::less<>> faults_;
  std::vector<std::string> misuse_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_FAKES_CUDA_FAKE_CUDA_H_
