#include "tests/fakes/cuda/fake_cuda.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "services/worker/cuda/judge/judge_kernels.h"
#include "tests/fakes/cuda/fake_kernels.h"

namespace kernelcast::testing {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 512;

// The device whose context is current on this thread; -1: none.
thread_local CUdevice current = -1;

CUcontext ContextOf(CUdevice device) { return reinterpret_cast<CUcontext>(intptr_t{device} + 1); }
CUdevice DeviceOf(CUcontext context) {
  return static_cast<CUdevice>(reinterpret_cast<intptr_t>(context)) - 1;
}

// Stores a new object in `map` under a key made from it.
template <class Key, class Object>
Key Keep(std::map<Key, std::unique_ptr<Object>>& map, std::unique_ptr<Object> object) {
  const auto key = reinterpret_cast<Key>(object.get());
  map[key] = std::move(object);
  return key;
}

// The text of a fake cubin, or of a real one: the text in its device code, or the judge's kernels.
std::string CubinText(const char* image) {
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0) {
    return image;
  }
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  const std::string_view all(image, header.e_shoff + size_t{header.e_shentsize} * header.e_shnum);
  if (const size_t at = all.find("fake cubin\n"); at != std::string_view::npos) {
    return image + at;
  }
  const std::vector<worker::JudgeModule> modules = worker::JudgeModules();
  for (size_t i = 0; i < modules.size(); ++i) {
    if (all.find(modules[i].kernels.front()) != std::string_view::npos) return FakeJudgeCubins()[i];
  }
  return "";
}

[[noreturn]] void NeverReturn() {
  for (;;) pause();
}

}  // namespace

FakeCuda& FakeCuda::Instance() {
  static auto* const instance = new FakeCuda;
  return *instance;
}

void FakeCuda::Reset() {
  for (const auto& [address, block] : blocks_) {
    if (block.shared) {
      munmap(block.data, block.bytes);
    } else {
      std::free(block.data);
    }
  }
  for (const auto& [number, handle] : handles_) close(handle.fd);
  current = -1;
  retained_.clear();
  lost_.clear();
  devices_ = {{}};
  real_time_ = false;
  elsewhere_ns_ = 0;
  device_ns_ = 0;
  queued_ns_ = 0;
  memory_bytes_ = uint64_t{1} << 30;
  blocks_.clear();
  handles_.clear();
  modules_.clear();
  functions_.clear();
  events_.clear();
  streams_.clear();
  captured_.reset();
  graphs_.clear();
  graph_execs_.clear();
  calls_.clear();
  faults_.clear();
  misuse_.clear();
  on_launch = nullptr;
}

void FakeCuda::Inject(const std::string& function, int nth, Effect effect, CUresult error) {
  faults_[function] = {calls_[function] + nth, effect, error};
}

std::map<std::string, int> FakeCuda::Held() const {
  std::map<std::string, int> held;
  const auto count = [&](const std::string& what, size_t number) {
    if (number > 0) held[what] = static_cast<int>(number);
  };
  size_t buffers = 0;
  size_t mapped = 0;
  size_t reserved = 0;
  for (const auto& [address, block] : blocks_) {
    ++(!block.shared ? buffers : block.mapped ? mapped : reserved);
  }
  int contexts = 0;
  for (const auto& [device, number] : retained_) contexts += number;
  count("contexts", static_cast<size_t>(contexts));
  count("streams", streams_.size());
  count("events", events_.size());
  count("modules", modules_.size());
  count("graphs", graphs_.size() + graph_execs_.size());
  count("handles", handles_.size());
  count("buffers", buffers);
  count("mappings", mapped);
  count("reservations", reserved);
  return held;
}

int FakeCuda::calls(const std::string& function) const {
  const auto found = calls_.find(function);
  return found == calls_.end() ? 0 : found->second;
}

CUresult FakeCuda::Enter(const char* function, bool needs_context) {
  const int number = ++calls_[function];
  if (const auto fault = faults_.find(function);
      fault != faults_.end() && number >= fault->second.at) {
    const Fault met = fault->second;
    switch (met.effect) {
      case Effect::kExit: _exit(9);
      case Effect::kHang: NeverReturn();
      case Effect::kFailOnce: faults_.erase(fault); break;
      case Effect::kFail: break;
    }
    if (worker::IsSticky(met.error)) {
      lost_[current] = met.error;
    }
    return met.error;
  }
  if (!needs_context) {
    return CUDA_SUCCESS;
  }
  if (current < 0 || retained_[current] == 0) {
    return Misuse(std::string(function) + " without a context", CUDA_ERROR_INVALID_CONTEXT);
  }
  if (const CUresult broken = Broken(current); broken != CUDA_SUCCESS) {
    return broken;
  }
  return lost_[current];
}

CUresult FakeCuda::Broken(CUdevice device) const {
  const auto at = static_cast<size_t>(device);
  return at < devices_.size() && !devices_[at].broken_while.empty() &&
                 access(devices_[at].broken_while.c_str(), F_OK) == 0
             ? CUDA_ERROR_DEVICE_UNAVAILABLE
             : CUDA_SUCCESS;
}

CUresult FakeCuda::Misuse(const std::string& what, CUresult result) {
  misuse_.push_back(what);
  return result;
}

uint64_t FakeCuda::UsedBytes() const {
  uint64_t bytes = 0;
  for (const auto& [address, block] : blocks_) bytes += block.shared ? 0 : block.bytes;
  for (const auto& [number, handle] : handles_) bytes += handle.imported ? 0 : handle.bytes;
  return bytes;
}

std::byte* FakeCuda::Memory(CUdeviceptr address, size_t bytes, bool to_write) {
  auto block = blocks_.upper_bound(address);
  if (block == blocks_.begin()) {
    return nullptr;
  }
  --block;
  const size_t offset = address - block->first;
  const bool allowed =
      block->second.mapped && block->second.readable && (block->second.writable || !to_write);
  if (!allowed || offset > block->second.bytes || bytes > block->second.bytes - offset) {
    return nullptr;
  }
  return block->second.data + offset;
}

CUdeviceptr FakeCuda::InNextArena(CUdeviceptr address) const {
  auto own = blocks_.upper_bound(address);
  if (own == blocks_.begin()) {
    return 0;
  }
  --own;
  const std::pair<const CUdeviceptr, Block>* next = nullptr;
  for (const auto& other : blocks_) {
    if (other.second.shared && other.second.number > own->second.number &&
        (next == nullptr || other.second.number < next->second.number)) {
      next = &other;
    }
  }
  // Arenas begin at different offsets in their memory.
  return next == nullptr ? 0 : next->first + (address - own->first) % (next->second.bytes / 2);
}

void FakeCuda::Work(double device_ns, double host_only_ns) {
  device_ns_ += device_ns;
  clock_.Advance(static_cast<int64_t>(device_ns + host_only_ns));
}

CUresult FakeCuda::Launch(CUfunction function, void** parameters) {
  if (functions_.count(function) == 0) {
    return Misuse("launched what is no kernel", CUDA_ERROR_INVALID_HANDLE);
  }
  CUresult lost = CUDA_SUCCESS;
  auto* const kernel = reinterpret_cast<FakeKernel*>(function);
  const double start_ns = device_ns_;
  const CUresult result = kernel->Run(*this, parameters, lost);
  if (on_launch && result == CUDA_SUCCESS) {
    on_launch({kernel->name, start_ns, device_ns_ - start_ns});
  }
  if (lost != CUDA_SUCCESS) {
    lost_[current] = lost;
  }
  return result;
}

CUresult FakeCuda::Do(std::function<CUresult()> work) {
  if (captured_ == nullptr) return work();
  captured_->push_back(std::move(work));
  return CUDA_SUCCESS;
}

// The functions of the table, with access to the fake's internals.
class FakeDriver {
 public:
  static worker::CudaApi Table();

 private:
  static FakeCuda& fake() { return FakeCuda::Instance(); }

  static CUresult Fill(CUdeviceptr address, const void* unit, size_t unit_bytes, size_t count) {
    if (address % unit_bytes != 0) {
      return fake().Misuse("filled at an address that is not aligned");
    }
    std::byte* const data = fake().Memory(address, unit_bytes * count, true);
    if (data == nullptr) {
      return fake().lost_[current] = CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    for (size_t i = 0; i < count; ++i) std::memcpy(data + i * unit_bytes, unit, unit_bytes);
    fake().Work(std::exchange(fake().queued_ns_, 0) + 1000 +
                0.001 * static_cast<double>(unit_bytes * count));
    return CUDA_SUCCESS;
  }
  static CUresult Copy(std::byte* to, const std::byte* from, size_t bytes) {
    if (to == nullptr || from == nullptr) {
      return fake().Misuse("copied memory that is not there");
    }
    std::memmove(to, from, bytes);
    fake().Work(1000);
    return CUDA_SUCCESS;
  }
  static bool IsMemoryFile(int fd, size_t* bytes) {
    struct stat file {};
    if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &file) != 0) {
      return false;
    }
    *bytes = static_cast<size_t>(file.st_size);
    return true;
  }
  static CUresult MakeBuffer(CUdeviceptr* address, size_t bytes);
  static CUresult MakeShared(CUmemGenericAllocationHandle* handle, size_t bytes);
  static CUresult Reserve(CUdeviceptr* address, size_t bytes);
  static CUresult MapShared(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle);
  static CUresult Unmap(CUdeviceptr address, size_t bytes);
};

#define FAKE_LOCK() const std::lock_guard<std::recursive_mutex> locked(fake().mutex_)
#define FAKE_ENTER(function) \
  FAKE_LOCK();               \
  if (const CUresult entered = fake().Enter(#function); entered != CUDA_SUCCESS) return entered
#define FAKE_ENTER_FREELY(function)                                                     \
  FAKE_LOCK();                                                                          \
  if (const CUresult entered = fake().Enter(#function, false); entered != CUDA_SUCCESS) \
  return entered

CUresult FakeDriver::MakeBuffer(CUdeviceptr* address, size_t bytes) {
  if (bytes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const size_t held = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (held > fake().memory_bytes_ - std::min(fake().memory_bytes_, fake().UsedBytes())) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  FakeCuda::Block block;
  block.bytes = bytes;
  block.data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, held));
  block.number = ++fake().numbers_;
  std::memset(block.data, 0xcd, held);
  *address = reinterpret_cast<CUdeviceptr>(block.data);
  fake().blocks_[*address] = block;
  return CUDA_SUCCESS;
}

CUresult FakeDriver::MakeShared(CUmemGenericAllocationHandle* handle, size_t bytes) {
  if (bytes == 0 || bytes % kPage != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (bytes > fake().memory_bytes_ - std::min(fake().memory_bytes_, fake().UsedBytes())) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const int fd = memfd_create("fake-cuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *handle = ++fake().numbers_;
  fake().handles_[*handle] = {fd, bytes, false};
  return CUDA_SUCCESS;
}

CUresult FakeDriver::Reserve(CUdeviceptr* address, size_t bytes) {
  if (bytes == 0 || bytes % kPage != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  void* const data =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = reinterpret_cast<CUdeviceptr>(data);
  fake().blocks_[*address] = {
      static_cast<std::byte*>(data), bytes, true, false, false, false, ++fake().numbers_};
  return CUDA_SUCCESS;
}

CUresult FakeDriver::MapShared(CUdeviceptr address, size_t bytes,
                               CUmemGenericAllocationHandle number) {
  const auto block = fake().blocks_.find(address);
  const auto handle = fake().handles_.find(number);
  if (block == fake().blocks_.end() || handle == fake().handles_.end() || block->second.mapped) {
    return fake().Misuse("mapped what is not reserved, or no memory");
  }
  if (block->second.bytes != bytes || handle->second.bytes != bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (mmap(block->second.data, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->second.fd, 0) ==
      MAP_FAILED) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  block->second.mapped = true;
  return CUDA_SUCCESS;
}

CUresult FakeDriver::Unmap(CUdeviceptr address, size_t bytes) {
  const auto block = fake().blocks_.find(address);
  if (block == fake().blocks_.end() || !block->second.mapped || block->second.bytes != bytes) {
    return fake().Misuse("unmapped what is not mapped");
  }
  mmap(block->second.data, bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  block->second.mapped = false;
  return CUDA_SUCCESS;
}

worker::CudaApi FakeDriver::Table() {
  worker::CudaApi api;
  api.Init = [](unsigned int) -> CUresult {
    FAKE_ENTER_FREELY(Init);
    return CUDA_SUCCESS;
  };
  api.DriverGetVersion = [](int* version) -> CUresult {
    FAKE_ENTER_FREELY(DriverGetVersion);
    *version = 13000;
    return CUDA_SUCCESS;
  };
  api.GetErrorName = [](CUresult result, const char** name) -> CUresult {
    switch (result) {
      case CUDA_ERROR_ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
      case CUDA_ERROR_LAUNCH_FAILED: *name = "CUDA_ERROR_LAUNCH_FAILED"; break;
      case CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
      case CUDA_ERROR_NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; break;
      case CUDA_ERROR_INVALID_IMAGE: *name = "CUDA_ERROR_INVALID_IMAGE"; break;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  };
  api.GetErrorString = [](CUresult, const char**) { return CUDA_ERROR_INVALID_VALUE; };
  api.DeviceGetCount = [](int* count) -> CUresult {
    FAKE_ENTER_FREELY(DeviceGetCount);
    *count = static_cast<int>(fake().devices_.size());
    return CUDA_SUCCESS;
  };
  api.DeviceGet = [](CUdevice* device, int ordinal) -> CUresult {
    FAKE_ENTER_FREELY(DeviceGet);
    if (ordinal < 0 || static_cast<size_t>(ordinal) >= fake().devices_.size()) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
  };
  api.DeviceGetAttribute = [](int* value, CUdevice_attribute attribute, CUdevice) -> CUresult {
    FAKE_ENTER_FREELY(DeviceGetAttribute);
    switch (attribute) {
      case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
      case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = FakeCuda::kL2Bytes; break;
      default: *value = 1;
    }
    return CUDA_SUCCESS;
  };
  api.DeviceGetName = [](char* name, int bytes, CUdevice device) -> CUresult {
    FAKE_ENTER_FREELY(DeviceGetName);
    const FakeDevice& asked = fake().devices_.at(static_cast<size_t>(device));
    std::strncpy(name, asked.model.c_str(), static_cast<size_t>(bytes));
    return CUDA_SUCCESS;
  };
  api.DeviceGetUuid = [](CUuuid* uuid, CUdevice device) -> CUresult {
    FAKE_ENTER_FREELY(DeviceGetUuid);
    for (size_t i = 0; i < sizeof(uuid->bytes); ++i) uuid->bytes[i] = static_cast<char>(17 * i);
    uuid->bytes[0] = static_cast<char>(fake().devices_.at(static_cast<size_t>(device)).number);
    return CUDA_SUCCESS;
  };
  api.DeviceTotalMem = [](size_t* bytes, CUdevice) -> CUresult {
    FAKE_ENTER_FREELY(DeviceTotalMem);
    *bytes = fake().memory_bytes_;
    return CUDA_SUCCESS;
  };
  api.DevicePrimaryCtxRetain = [](CUcontext* context, CUdevice device) -> CUresult {
    FAKE_ENTER_FREELY(DevicePrimaryCtxRetain);
    if (const CUresult broken = fake().Broken(device); broken != CUDA_SUCCESS) return broken;
    ++fake().retained_[device];
    *context = ContextOf(device);
    return CUDA_SUCCESS;
  };
  api.DevicePrimaryCtxRelease = [](CUdevice device) -> CUresult {
    FAKE_ENTER_FREELY(DevicePrimaryCtxRelease);
    if (fake().retained_[device] == 0) {
      return fake().Misuse("released a context that is not there");
    }
    if (--fake().retained_[device] == 0) {
      fake().lost_[device] = CUDA_SUCCESS;
    }
    return CUDA_SUCCESS;
  };
  api.DevicePrimaryCtxSetFlags = [](CUdevice, unsigned int) { return CUDA_SUCCESS; };
  api.CtxSetCurrent = [](CUcontext context) -> CUresult {
    FAKE_ENTER_FREELY(CtxSetCurrent);
    current = DeviceOf(context);
    return CUDA_SUCCESS;
  };
  api.CtxSynchronize = []() -> CUresult {
    FAKE_ENTER(CtxSynchronize);
    return CUDA_SUCCESS;
  };
  api.CtxSetLimit = [](CUlimit, size_t) -> CUresult {
    FAKE_ENTER(CtxSetLimit);
    return CUDA_SUCCESS;
  };
  api.CtxResetPersistingL2Cache = []() -> CUresult {
    FAKE_ENTER(CtxResetPersistingL2Cache);
    return CUDA_SUCCESS;
  };
  api.ModuleLoadData = [](CUmodule* module, const void* image) -> CUresult {
    FAKE_ENTER(ModuleLoadData);
    auto kernels = ParseFakeCubin(CubinText(static_cast<const char*>(image)));
    if (!kernels) {
      return CUDA_ERROR_INVALID_IMAGE;
    }
    for (const auto& kernel : *kernels) {
      while (kernel->Option("hang_load") != 0) pause();
    }
    auto made = std::make_unique<FakeCuda::Module>();
    made->kernels = *std::move(kernels);
    for (const auto& kernel : made->kernels) {
      fake().functions_.insert(reinterpret_cast<CUfunction>(kernel.get()));
    }
    *module = Keep(fake().modules_, std::move(made));
    return CUDA_SUCCESS;
  };
  api.ModuleUnload = [](CUmodule module) -> CUresult {
    FAKE_LOCK();
    const CUresult entered = fake().Enter("ModuleUnload");
    const auto found = fake().modules_.find(module);
    if (found == fake().modules_.end()) {
      return fake().Misuse("unloaded what is no module");
    }
    for (const auto& kernel : found->second->kernels) {
      fake().functions_.erase(reinterpret_cast<CUfunction>(kernel.get()));
    }
    fake().modules_.erase(found);
    return entered;
  };
  api.ModuleGetFunction = [](CUfunction* function, CUmodule module, const char* name) -> CUresult {
    FAKE_ENTER(ModuleGetFunction);
    for (const auto& kernel : fake().modules_.at(module)->kernels) {
      if (kernel->name == name) {
        *function = reinterpret_cast<CUfunction>(kernel.get());
        return CUDA_SUCCESS;
      }
    }
    return CUDA_ERROR_NOT_FOUND;
  };
  api.FuncGetParamInfo = [](CUfunction function, size_t index, size_t* offset,
                            size_t* bytes) -> CUresult {
    FAKE_ENTER(FuncGetParamInfo);
    const auto& parameters = reinterpret_cast<FakeKernel*>(function)->parameter_bytes;
    if (index >= parameters.size()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *offset = 8 * index;
    *bytes = parameters[index];
    return CUDA_SUCCESS;
  };
  api.FuncGetAttribute = [](int* value, CUfunction_attribute, CUfunction) -> CUresult {
    FAKE_ENTER(FuncGetAttribute);
    *value = 48 << 10;
    return CUDA_SUCCESS;
  };
  api.FuncSetAttribute = [](CUfunction, CUfunction_attribute, int) -> CUresult {
    FAKE_ENTER(FuncSetAttribute);
    return CUDA_SUCCESS;
  };
  api.LaunchKernel = [](CUfunction function, unsigned int, unsigned int, unsigned int, unsigned int,
                        unsigned int, unsigned int, unsigned int, CUstream, void** parameters,
                        void**) -> CUresult {
    FAKE_ENTER(LaunchKernel);
    return fake().Launch(function, parameters);
  };
  api.LaunchKernelEx = [](const CUlaunchConfig*, CUfunction function, void** parameters,
                          void**) -> CUresult {
    FAKE_ENTER(LaunchKernelEx);
    if (fake().captured_ == nullptr) return fake().Launch(function, parameters);
    if (fake().functions_.count(function) == 0) {
      return fake().Misuse("launched what is no kernel", CUDA_ERROR_INVALID_HANDLE);
    }
    // A graph has the values that its parameters had when it was captured.
    std::vector<std::vector<std::byte>> values;
    for (const size_t bytes : reinterpret_cast<FakeKernel*>(function)->parameter_bytes) {
      const auto* const value = static_cast<const std::byte*>(parameters[values.size()]);
      values.emplace_back(value, value + bytes);
    }
    return fake().Do([function, values]() mutable {
      std::vector<void*> pointers;
      for (std::vector<std::byte>& value : values) pointers.push_back(value.data());
      return fake().Launch(function, pointers.data());
    });
  };
  api.StreamBeginCapture = [](CUstream, CUstreamCaptureMode) -> CUresult {
    FAKE_ENTER(StreamBeginCapture);
    if (fake().captured_ != nullptr) return fake().Misuse("captures while it captures");
    fake().captured_ = std::make_unique<FakeCuda::Graph>();
    return CUDA_SUCCESS;
  };
  api.StreamEndCapture = [](CUstream, CUgraph* graph) -> CUresult {
    FAKE_LOCK();
    const CUresult entered = fake().Enter("StreamEndCapture");
    if (fake().captured_ == nullptr) return fake().Misuse("ends what captures nothing");
    std::unique_ptr<FakeCuda::Graph> captured = std::move(fake().captured_);
    if (entered == CUDA_SUCCESS) *graph = Keep(fake().graphs_, std::move(captured));
    return entered;
  };
  api.GraphInstantiateWithFlags = [](CUgraphExec* exec, CUgraph graph,
                                     unsigned long long) -> CUresult {
    FAKE_ENTER(GraphInstantiateWithFlags);
    *exec = Keep(fake().graph_execs_, std::make_unique<FakeCuda::Graph>(*fake().graphs_.at(graph)));
    return CUDA_SUCCESS;
  };
  api.GraphLaunch = [](CUgraphExec exec, CUstream) -> CUresult {
    FAKE_ENTER(GraphLaunch);
    for (const auto& work : *fake().graph_execs_.at(exec)) {
      if (const CUresult done = work(); done != CUDA_SUCCESS) return done;
    }
    return CUDA_SUCCESS;
  };
  api.GraphExecDestroy = [](CUgraphExec exec) -> CUresult {
    FAKE_LOCK();
    const CUresult entered = fake().Enter("GraphExecDestroy");
    if (fake().graph_execs_.erase(exec) == 0) return fake().Misuse("destroyed what is no graph");
    return entered;
  };
  api.GraphDestroy = [](CUgraph graph) -> CUresult {
    FAKE_LOCK();
    const CUresult entered = fake().Enter("GraphDestroy");
    if (fake().graphs_.erase(graph) == 0) return fake().Misuse("destroyed what is no graph");
    return entered;
  };
  api.StreamCreate = [](CUstream* stream, unsigned int) -> CUresult {
    FAKE_ENTER(StreamCreate);
    *stream = reinterpret_cast<CUstream>(++fake().numbers_);
    fake().streams_.insert(*stream);
    return CUDA_SUCCESS;
  };
  api.StreamDestroy = [](CUstream stream) -> CUresult {
    FAKE_LOCK();
    fake().streams_.erase(stream);
    return fake().Enter("StreamDestroy");
  };
  api.StreamSynchronize = [](CUstream) -> CUresult {
    FAKE_ENTER(StreamSynchronize);
    return CUDA_SUCCESS;
  };
  api.EventCreate = [](CUevent* event, unsigned int) -> CUresult {
    FAKE_ENTER(EventCreate);
    *event = Keep(fake().events_, std::make_unique<FakeCuda::Event>());
    return CUDA_SUCCESS;
  };
  api.EventDestroy = [](CUevent event) -> CUresult {
    FAKE_LOCK();
    fake().events_.erase(event);
    return fake().Enter("EventDestroy");
  };
  api.EventRecord = [](CUevent event, CUstream) -> CUresult {
    FAKE_ENTER(EventRecord);
    fake().events_.at(event)->device_ns =
        fake().real_time_ ? static_cast<double>(Clock::Real().MonotonicNs()) : fake().device_ns_;
    return CUDA_SUCCESS;
  };
  api.EventSynchronize = [](CUevent) -> CUresult {
    FAKE_ENTER(EventSynchronize);
    fake().Work(0, fake().elsewhere_ns_);
    return CUDA_SUCCESS;
  };
  api.EventElapsedTime = [](float* milliseconds, CUevent first, CUevent second) -> CUresult {
    FAKE_ENTER(EventElapsedTime);
    *milliseconds = static_cast<float>(
        1e-6 * (fake().events_.at(second)->device_ns - fake().events_.at(first)->device_ns));
    return CUDA_SUCCESS;
  };
  api.MemAlloc = [](CUdeviceptr* address, size_t bytes) -> CUresult {
    FAKE_ENTER(MemAlloc);
    return MakeBuffer(address, bytes);
  };
  api.MemFree = [](CUdeviceptr address) -> CUresult {
    FAKE_LOCK();
    const CUresult entered = fake().Enter("MemFree");
    const auto found = fake().blocks_.find(address);
    if (found == fake().blocks_.end() || found->second.shared) {
      return fake().Misuse("freed what is no buffer");
    }
    std::free(found->second.data);
    fake().blocks_.erase(found);
    return entered;
  };
  api.MemGetInfo = [](size_t* free_bytes, size_t* total) -> CUresult {
    FAKE_ENTER(MemGetInfo);
    *total = fake().memory_bytes_;
    *free_bytes = *total - fake().UsedBytes();
    return CUDA_SUCCESS;
  };
  api.MemsetD8Async = [](CUdeviceptr address, unsigned char value, size_t count,
                         CUstream) -> CUresult {
    FAKE_ENTER(MemsetD8Async);
    return Fill(address, &value, 1, count);
  };
  api.MemsetD32Async = [](CUdeviceptr address, unsigned int value, size_t count,
                          CUstream) -> CUresult {
    FAKE_ENTER(MemsetD32Async);
    return Fill(address, &value, 4, count);
  };
  api.MemcpyHtoDAsync = [](CUdeviceptr to, const void* from, size_t bytes, CUstream) -> CUresult {
    FAKE_ENTER(MemcpyHtoDAsync);
    return Copy(fake().Memory(to, bytes, true), static_cast<const std::byte*>(from), bytes);
  };
  api.MemcpyDtoHAsync = [](void* to, CUdeviceptr from, size_t bytes, CUstream) -> CUresult {
    FAKE_ENTER(MemcpyDtoHAsync);
    return Copy(static_cast<std::byte*>(to), fake().Memory(from, bytes, false), bytes);
  };
  api.MemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) -> CUresult {
    FAKE_ENTER(MemcpyDtoDAsync);
    return fake().Do([=] {
      return Copy(fake().Memory(to, bytes, true), fake().Memory(from, bytes, false), bytes);
    });
  };
  api.MemCreate = [](CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp*,
                     unsigned long long) -> CUresult {
    FAKE_ENTER(MemCreate);
    return MakeShared(handle, bytes);
  };
  api.MemRelease = [](CUmemGenericAllocationHandle number) -> CUresult {
    FAKE_LOCK();
    const CUresult entered = fake().Enter("MemRelease", false);
    const auto found = fake().handles_.find(number);
    if (found == fake().handles_.end()) {
      return fake().Misuse("released a handle that is not there");
    }
    close(found->second.fd);
    fake().handles_.erase(found);
    return entered;
  };
  api.MemExportToShareableHandle = [](void* exported, CUmemGenericAllocationHandle number,
                                      CUmemAllocationHandleType, unsigned long long) -> CUresult {
    FAKE_ENTER(MemExportToShareableHandle);
    const int fd = fcntl(fake().handles_.at(number).fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
      return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *static_cast<int*>(exported) = fd;
    return CUDA_SUCCESS;
  };
  api.MemImportFromShareableHandle = [](CUmemGenericAllocationHandle* number, void* exported,
                                        CUmemAllocationHandleType) -> CUresult {
    FAKE_ENTER(MemImportFromShareableHandle);
    const auto fd = static_cast<int>(reinterpret_cast<intptr_t>(exported));
    size_t bytes = 0;
    if (!IsMemoryFile(fd, &bytes)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *number = ++fake().numbers_;
    fake().handles_[*number] = {fcntl(fd, F_DUPFD_CLOEXEC, 0), bytes, true};
    return CUDA_SUCCESS;
  };
  api.MemAddressReserve = [](CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long) -> CUresult {
    FAKE_ENTER(MemAddressReserve);
    return Reserve(address, bytes);
  };
  api.MemAddressFree = [](CUdeviceptr address, size_t bytes) -> CUresult {
    FAKE_LOCK();
    const CUresult entered = fake().Enter("MemAddressFree", false);
    const auto found = fake().blocks_.find(address);
    if (found == fake().blocks_.end() || !found->second.shared || found->second.mapped ||
        found->second.bytes != bytes) {
      return fake().Misuse("freed addresses that are not reserved, or still mapped");
    }
    munmap(found->second.data, bytes);
    fake().blocks_.erase(found);
    return entered;
  };
  api.MemMap = [](CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle handle,
                  unsigned long long) -> CUresult {
    FAKE_ENTER(MemMap);
    return MapShared(address, bytes, handle);
  };
  api.MemUnmap = [](CUdeviceptr address, size_t bytes) -> CUresult {
    FAKE_LOCK();
    const CUresult entered = fake().Enter("MemUnmap", false);
    const CUresult unmapped = Unmap(address, bytes);
    return unmapped == CUDA_SUCCESS ? entered : unmapped;
  };
  api.MemSetAccess = [](CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                        size_t) -> CUresult {
    FAKE_ENTER(MemSetAccess);
    const auto found = fake().blocks_.find(address);
    if (found == fake().blocks_.end() || !found->second.mapped || found->second.bytes != bytes) {
      return fake().Misuse("opened what is not mapped");
    }
    found->second.readable = true;
    found->second.writable = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    mprotect(found->second.data, bytes,
             found->second.writable ? PROT_READ | PROT_WRITE : PROT_READ);
    return CUDA_SUCCESS;
  };
  api.MemGetAllocationGranularity = [](size_t* granularity, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) -> CUresult {
    FAKE_ENTER(MemGetAllocationGranularity);
    *granularity = kPage;
    return CUDA_SUCCESS;
  };
  return api;
}

#undef FAKE_LOCK
#undef FAKE_ENTER
#undef FAKE_ENTER_FREELY

const worker::CudaApi& FakeCuda::Api() {
  static const auto* const api = new worker::CudaApi(FakeDriver::Table());
  return *api;
}

}  // namespace kernelcast::testing
