#ifndef KERNELCAST_TESTS_FAKES_CUDA_FAKE_CUDA_H_
#define KERNELCAST_TESTS_FAKES_CUDA_FAKE_CUDA_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "services/worker/cuda/api/cuda_api.h"

namespace kernelcast::testing {

struct FakeKernel;

// A device of the fake driver.
struct FakeDevice {
  std::string model = "Fake GPU";
  // A part of the UUID, which names the device outside this process.
  int number = 0;
  // A file; while it exists, the device fails every operation. Empty: none.
  std::string broken_while = {};
};

// A driver whose device memory is this process's memory and whose streams run immediately. Shared
// memory lives in memory files, so that a fake in another process can map it. There is one per
// process, like the real one. Its functions are thread-safe; the class is not.
//
// A "cubin" is text (see fake_kernels.h) that names the built-in functions for its kernels. Time
// advances only by work: on the device, which events read, and on the host, whose clock this is.
class FakeCuda {
 public:
  static constexpr int kL2Bytes = 4096;

  static FakeCuda& Instance();
  // Functions that the project does not call are null.
  static const worker::CudaApi& Api();

  // Resets to a new driver. Everything held by the previous one must have been released.
  void Reset();

  // Makes a function (a member of CudaApi) misbehave from its `nth` call (counted from 1) on: it
  // fails, ends the process, or never returns.
  enum class Effect { kFail, kFailOnce, kExit, kHang };
  void Inject(const std::string& function, int nth, Effect effect,
              CUresult error = CUDA_ERROR_UNKNOWN);
  // Total bytes available to buffers and shared memory.
  void set_memory_bytes(uint64_t bytes) { memory_bytes_ = bytes; }

  // One device by default.
  void set_devices(std::vector<FakeDevice> devices) { devices_ = std::move(devices); }
  // Events report real time.
  void set_real_time() { real_time_ = true; }
  // Time on the host for which the device works for another process when an event is waited for.
  void set_elsewhere_ns(double elsewhere_ns) { elsewhere_ns_ = elsewhere_ns; }

  FakeClock& clock() { return clock_; }

  // Objects created and not released: contexts retained, streams, events, modules, graphs, buffers,
  // handles and mappings of shared memory, reserved addresses.
  std::map<std::string, int> Held() const;
  // Calls that no correct program makes, such as memory freed twice or without a context.
  const std::vector<std::string>& misuse() const { return misuse_; }
  int calls(const std::string& function) const;

  // For kernels. The memory at `address`, or null if it is not fully mapped or not writable.
  std::byte* Memory(CUdeviceptr address, size_t bytes, bool to_write);
  // The address at the same offset in the arena that was mapped next.
  CUdeviceptr InNextArena(CUdeviceptr address) const;
  // Advances time: on both the device and the host, and on the host alone.
  void Work(double device_ns, double host_only_ns = 0);
  // For profilers: called for every launched kernel with its start and duration.
  struct Launched {
    std::string name;
    double start_ns = 0;
    double duration_ns = 0;
  };
  std::function<void(const Launched&)> on_launch;
  // The contents of shared memory before the next kernel; 0 after one has run.
  uint32_t shared_word = 0;
  // Device time that passes before memory is next filled.
  void QueueWork(double device_ns) { queued_ns_ += device_ns; }

 private:
  friend class FakeDriver;
  struct Block {
    std::byte* data = nullptr;
    size_t bytes = 0;
    bool shared = false;
    bool readable = true;
    bool writable = true;
    bool mapped = true;
    uint64_t number = 0;  // in creation order
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
  // The work of a graph, in order.
  using Graph = std::vector<std::function<CUresult()>>;
  struct Fault {
    int at = 0;
    Effect effect = Effect::kFail;
    CUresult error = CUDA_ERROR_UNKNOWN;
  };

  FakeCuda() = default;
  // Counts the call. Returns the result to return immediately, or success.
  CUresult Enter(const char* function, bool needs_context = true);
  CUresult Misuse(const std::string& what, CUresult result = CUDA_ERROR_INVALID_VALUE);
  CUresult Launch(CUfunction function, void** parameters);
  // Does the work, or adds it to the graph that is being captured.
  CUresult Do(std::function<CUresult()> work);
  uint64_t UsedBytes() const;
  CUresult Broken(CUdevice device) const;

  // Held while a driver function runs.
  std::recursive_mutex mutex_;
  std::vector<FakeDevice> devices_ = {{}};
  bool real_time_ = false;
  double elsewhere_ns_ = 0;
  std::map<CUdevice, int> retained_;
  std::map<CUdevice, CUresult> lost_;
  double device_ns_ = 0;
  double queued_ns_ = 0;
  FakeClock clock_;
  uint64_t memory_bytes_ = uint64_t{1} << 30;
  uint64_t numbers_ = 0;
  std::map<CUdeviceptr, Block> blocks_;
  std::map<CUmemGenericAllocationHandle, Handle> handles_;
  std::map<CUmodule, std::unique_ptr<Module>> modules_;
  std::set<CUfunction> functions_;
  std::map<CUevent, std::unique_ptr<Event>> events_;
  std::set<CUstream> streams_;
  std::unique_ptr<Graph> captured_;  // null: nothing is being captured
  std::map<CUgraph, std::unique_ptr<Graph>> graphs_;
  std::map<CUgraphExec, std::unique_ptr<Graph>> graph_execs_;
  std::map<std::string, int, std::less<>> calls_;
  std::map<std::string, Fault, std::less<>> faults_;
  std::vector<std::string> misuse_;
};

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_FAKES_CUDA_FAKE_CUDA_H_
