#include "services/worker/cuda/runner/runner.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/base/descriptor.h"
#include "services/worker/cuda/runner/records.h"
#include "services/worker/cuda/runner/sandbox.h"

namespace kernelcast::worker::cuda_runner {
namespace {

// Output of kernels is ignored and must not fill memory.
constexpr size_t kPrintBytes = 64 << 10;
constexpr size_t kDeviceHeapBytes = 1 << 20;
constexpr uint32_t kPortableClusterBlocks = 8;
constexpr int kDefaultL2Bytes = 1 << 20;

// Maps the first `bytes` of a file, if it is long enough.
class FileView {
 public:
  FileView(int fd, size_t bytes) : bytes_(bytes) {
    struct stat file {};
    if (bytes == 0 || fstat(fd, &file) != 0 || static_cast<uint64_t>(file.st_size) < bytes) {
      return;
    }
    void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    data_ = data == MAP_FAILED ? nullptr : static_cast<const std::byte*>(data);
  }
  ~FileView() {
    if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), bytes_);
  }
  FileView(const FileView&) = delete;
  FileView& operator=(const FileView&) = delete;
  bool ok() const { return data_ != nullptr; }
  std::span<const std::byte> bytes() const { return {data_, bytes_}; }

 private:
  const size_t bytes_;
  const std::byte* data_ = nullptr;
};

}  // namespace

bool Runner::Check(CUresult result, const char* where) {
  if (result == CUDA_SUCCESS) {
    return true;
  }
  reply_.failure = Failure::kDriver;
  reply_.cuda_error = static_cast<int32_t>(result);
  reply_.context_lost = IsSticky(result) ? 1 : 0;
  std::snprintf(reply_.where, sizeof(reply_.where), "%s", where);
  return false;
}

bool Runner::Refuse(const std::string& why) {
  reply_.failure = Failure::kRequest;
  std::snprintf(reply_.where, sizeof(reply_.where), "%s", why.c_str());
  return false;
}

bool Runner::Finish(bool ok, CUresult ended) {
  if (ok) {
    return Check(ended, "a kernel");
  }
  // The first failure may have left the context intact while an earlier kernel did not.
  reply_.context_lost |= IsSticky(ended) ? 1 : 0;
  return false;
}

Runner::~Runner() {
  if (context_ == nullptr) {
    return;
  }
  api_.CtxSynchronize();
  for (uint32_t slot = 0; slot < kSlots; ++slot) Unload(slot);
  for (uint32_t slot = 0; slot < kMaxArenas; ++slot) Unmap(slot);
  for (const CUevent event : events_) {
    if (event != nullptr) api_.EventDestroy(event);
  }
  if (sweep_.module != nullptr) api_.ModuleUnload(sweep_.module);
  if (flush_ != 0) api_.MemFree(flush_);
  if (stream_ != nullptr) api_.StreamDestroy(stream_);
  api_.DevicePrimaryCtxRelease(device_);
}

bool Runner::Start() {
  int l2_bytes = 0;
  if (!Check(api_.Init(0), "cuInit") || !Check(api_.DeviceGet(&device_, 0), "cuDeviceGet") ||
      // Otherwise the driver resizes local memory whenever a kernel that needs much of it follows
      // one that needs little, which takes longer than most kernels.
      !Check(api_.DevicePrimaryCtxSetFlags(device_, CU_CTX_LMEM_RESIZE_TO_MAX),
             "cuDevicePrimaryCtxSetFlags") ||
      !Check(api_.DevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain") ||
      !Check(api_.CtxSetCurrent(context_), "cuCtxSetCurrent") ||
      !Check(api_.StreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate") ||
      !Check(api_.DeviceGetAttribute(&l2_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device_),
             "cuDeviceGetAttribute")) {
    return false;
  }
  // Not every device supports every limit, so ignore failures.
  api_.CtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, kPrintBytes);
  api_.CtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, kDeviceHeapBytes);
  flush_bytes_ = 2 * static_cast<size_t>(l2_bytes > 0 ? l2_bytes : kDefaultL2Bytes);
  if (!Check(api_.MemAlloc(&flush_, flush_bytes_), "cuMemAlloc")) {
    return false;
  }
  for (CUevent& event : events_) {
    if (!Check(api_.EventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate")) {
      return false;
    }
  }
  started_ = true;
  return true;
}

bool Runner::Map(const Request& request, int fd) {
  if (request.slot >= kMaxArenas || fd < 0 || request.bytes <= request.extra ||
      arenas_[request.slot].address != 0) {
    return Refuse("kMap");
  }
  const size_t bytes = request.bytes;
  CUmemGenericAllocationHandle handle = 0;
  // The driver's interface passes descriptors as pointers.
  void* const shared = reinterpret_cast<void*>(static_cast<intptr_t>(fd));  // NOLINT
  if (!Check(api_.MemImportFromShareableHandle(&handle, shared,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
             "cuMemImportFromShareableHandle")) {
    return false;
  }
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device_;
  access.flags =
      request.writable != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
  CUdeviceptr address = 0;
  const bool reserved =
      Check(api_.MemAddressReserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
  const bool mapped = reserved && Check(api_.MemMap(address, bytes, 0, handle, 0), "cuMemMap");
  const bool ok = mapped && Check(api_.MemSetAccess(address, bytes, &access, 1), "cuMemSetAccess");
  // The mapping keeps the memory alive.
  api_.MemRelease(handle);
  if (ok) {
    arenas_[request.slot] = {address + request.extra, bytes - request.extra, request.extra};
    return true;
  }
  if (mapped) api_.MemUnmap(address, bytes);
  if (reserved) api_.MemAddressFree(address, bytes);
  return false;
}

void Runner::Unmap(uint32_t slot) {
  Arena& arena = arenas_[slot];
  if (arena.address == 0) {
    return;
  }
  for (std::vector<ReadyProgram>& programs : programs_) {
    const bool used =
        std::any_of(programs.begin(), programs.end(),
                    [&](const ReadyProgram& program) { return (program.arenas >> slot & 1) != 0; });
    if (used) DropPrograms(static_cast<uint32_t>(&programs - programs_.data()));
  }
  const CUdeviceptr mapped = arena.address - arena.padding;
  api_.MemUnmap(mapped, arena.bytes + arena.padding);
  api_.MemAddressFree(mapped, arena.bytes + arena.padding);
  arena = {};
}

bool Runner::Load(const Request& request, int fd) {
  if (request.slot >= kSlots || fd < 0 || request.bytes == 0 || request.bytes > kMaxFileBytes) {
    return Refuse("kLoad");
  }
  const FileView file(fd, request.bytes + request.extra);
  if (!file.ok()) {
    return Refuse("kLoad: cannot map the file");
  }
  // Unload first: there may not be room for two modules.
  Unload(request.slot);
  if (!LoadInto(modules_[request.slot], request, file.bytes())) {
    Unload(request.slot);
    return false;
  }
  return true;
}

bool Runner::LoadInto(Module& module, const Request& request, std::span<const std::byte> file) {
  if (!Check(api_.ModuleLoadData(&module.module, file.data()), "cuModuleLoadData")) {
    return false;
  }
  std::string_view names(reinterpret_cast<const char*>(file.data()) + request.bytes, request.extra);
  for (uint32_t i = 0; i < request.count; ++i) {
    const size_t end = names.find('\0');
    if (end == std::string_view::npos) {
      return Refuse("kLoad: names");
    }
    CUfunction function = nullptr;
    if (!Check(api_.ModuleGetFunction(&function, module.module, names.data()),
               "cuModuleGetFunction")) {
      return false;
    }
    module.kernels.push_back(function);
    names.remove_prefix(end + 1);
  }
  return true;
}

void Runner::DropPrograms(uint32_t slot) {
  for (const ReadyProgram& program : programs_[slot]) {
    if (program.graph != nullptr) api_.GraphExecDestroy(program.graph);
  }
  programs_[slot].clear();
}

void Runner::Unload(uint32_t slot) {
  DropPrograms(slot);
  if (modules_[slot].module != nullptr) {
    api_.ModuleUnload(modules_[slot].module);
  }
  modules_[slot] = {};
}

// The object stays for the life of the process: pointers to its code may be anywhere.
bool Runner::LoadObject(std::span<const ObjectRecord> records, int fd) {
  if (fd < 0 || records.size() != 1 || object_ != nullptr ||
      modules_[kCandidate].module != nullptr || modules_[kReference].module != nullptr) {
    return Refuse("kLoadObject");
  }
  // The object's own data count towards its limit.
  const int64_t used_bytes = PrivateMemoryBytes();
  std::string error;
  std::unique_ptr<HostProgram> object = loader_->Load(fd, records[0], error);
  if (object == nullptr) {
    Refuse(error);
    reply_.failure = Failure::kObject;
    return false;
  }
  loader_->EnterSandbox(records[0], used_bytes);
  object_ = std::move(object);
  object_->Construct();
  // No work of the constructors may go on during measurements of others.
  return Check(api_.CtxSynchronize(), "cuCtxSynchronize");
}

bool Runner::MakeCallReady(const Program& program, ReadyProgram& ready_program) {
  HostCall& call = ready_program.call;
  for (const auto* tensors : {&program.inputs, &program.outputs}) {
    for (const TensorRecord& tensor : *tensors) {
      const Arena& arena = arenas_[tensor.arena];
      if (object_ == nullptr || arena.address == 0 || tensor.offset > arena.bytes) {
        return Refuse("kPrograms: tensor");
      }
      call.Add(tensor, arena.address + tensor.offset, device_);
      ready_program.arenas |= 1u << tensor.arena;
    }
  }
  call.set_inputs(static_cast<uint32_t>(program.inputs.size()));
  call.set_id(++calls_taken_);
  call.set_task_case(program.task_case);
  return true;
}

bool Runner::MakeReady(const Program& program, const Module& module, ReadyProgram& ready_program) {
  if (!MakeCallReady(program, ready_program)) {
    return false;
  }
  std::vector<ReadyLaunch>& ready = ready_program.launches;
  ready.resize(program.launches.size());
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const ProgramLaunch& launch = program.launches[i];
    ReadyLaunch& to = ready[i];
    for (const Argument& argument : launch.arguments) {
      uint64_t value = argument.value;
      if (argument.arena != kLiteral) {
        const Arena& arena = arenas_[argument.arena];
        if (arena.address == 0 || value > arena.bytes) {
          return Refuse("kPrograms: arena");
        }
        value += arena.address;
        ready_program.arenas |= 1u << argument.arena;
      }
      to.values.push_back(value);
    }
    if (launch.kernel == kCopy) {
      if (to.values.size() != 3) return Refuse("kPrograms: copy");
    } else if (!MakeLaunchReady(launch, module, to)) {
      return false;
    }
  }
  return true;
}

bool Runner::MakeLaunchReady(const ProgramLaunch& launch, const Module& module, ReadyLaunch& to) {
  if (launch.kernel >= module.kernels.size()) {
    return Refuse("kPrograms: kernel");
  }
  to.function = module.kernels[launch.kernel];
  // The driver reads as many parameters as the kernel declares, regardless of how many are
  // passed.
  size_t parameters = 0;
  size_t offset = 0;
  size_t bytes = 0;
  while (api_.FuncGetParamInfo(to.function, parameters, &offset, &bytes) == CUDA_SUCCESS) {
    if (parameters < launch.arguments.size() && launch.arguments[parameters].bytes != bytes) {
      return Refuse("argument " + std::to_string(parameters + 1) + " has " +
                    std::to_string(launch.arguments[parameters].bytes) + " bytes, its parameter " +
                    std::to_string(bytes));
    }
    ++parameters;
  }
  if (parameters != launch.arguments.size()) {
    return Refuse("the kernel takes " + std::to_string(parameters) + " arguments, not " +
                  std::to_string(launch.arguments.size()));
  }
  for (uint64_t& value : to.values) {
    to.parameters.push_back(&value);
  }
  const uint64_t cluster_blocks =
      uint64_t{launch.cluster[0]} * launch.cluster[1] * launch.cluster[2];
  if (cluster_blocks > 0) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = launch.cluster[0];
    attribute.value.clusterDim.y = launch.cluster[1];
    attribute.value.clusterDim.z = launch.cluster[2];
    to.attributes.push_back(attribute);
  }
  if (cluster_blocks > kPortableClusterBlocks &&
      !Check(api_.FuncSetAttribute(to.function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                                   1),
             "cuFuncSetAttribute(non-portable cluster size)")) {
    return false;
  }
  int attribute = 0;
  if (launch.shared_memory_bytes > 0 &&
      api_.FuncGetAttribute(&attribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                            to.function) == CUDA_SUCCESS &&
      attribute < static_cast<int>(launch.shared_memory_bytes) &&
      !Check(api_.FuncSetAttribute(to.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                   static_cast<int>(launch.shared_memory_bytes)),
             "cuFuncSetAttribute(dynamic shared memory)")) {
    return false;
  }
  to.config.gridDimX = launch.grid[0];
  to.config.gridDimY = launch.grid[1];
  to.config.gridDimZ = launch.grid[2];
  to.config.blockDimX = launch.block[0];
  to.config.blockDimY = launch.block[1];
  to.config.blockDimZ = launch.block[2];
  to.config.sharedMemBytes = launch.shared_memory_bytes;
  to.config.hStream = stream_;
  to.config.attrs = to.attributes.data();
  to.config.numAttrs = static_cast<unsigned int>(to.attributes.size());
  return true;
}

bool Runner::TakePrograms(const Request& request, int fd) {
  if (request.slot >= kSlots || fd < 0 || request.bytes > kMaxFileBytes ||
      (modules_[request.slot].module == nullptr &&
       (object_ == nullptr || request.slot == kHostile))) {
    return Refuse("kPrograms");
  }
  const FileView file(fd, request.bytes);
  if (!file.ok()) {
    return Refuse("kPrograms: cannot map the file");
  }
  const auto programs = ReadPrograms(file.bytes(), request.count);
  if (!programs.ok()) {
    return Refuse(std::string(programs.status().message()));
  }
  std::vector<ReadyProgram> ready(programs->size());
  for (size_t i = 0; i < ready.size(); ++i) {
    if (!MakeReady((*programs)[i], modules_[request.slot], ready[i])) {
      return false;
    }
  }
  DropPrograms(request.slot);
  programs_[request.slot] = std::move(ready);
  return true;
}

bool Runner::Enqueue(ReadyProgram& program, bool replay) {
  if (!program.call.empty()) {
    const int32_t status =
        replay ? object_->Replay(program.call) : object_->Call(program.call, stream_);
    if (status != 0) {
      Refuse("kernelcast_run");
      reply_.failure = Failure::kEntry;
      reply_.cuda_error = status;
      return false;
    }
    delivers_ = true;
  }
  if (!replay || program.launches.empty()) return Launch(program);
  return (program.graph != nullptr || Capture(program)) &&
         Check(api_.GraphLaunch(program.graph, stream_), "cuGraphLaunch");
}

bool Runner::Capture(ReadyProgram& program) {
  if (!Check(api_.StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED),
             "cuStreamBeginCapture")) {
    return false;
  }
  const bool launched = Launch(program);
  CUgraph graph = nullptr;
  // Also after a failure, which ends the capture.
  const CUresult ended = api_.StreamEndCapture(stream_, &graph);
  const bool made =
      launched && Check(ended, "cuStreamEndCapture") &&
      Check(api_.GraphInstantiateWithFlags(&program.graph, graph, 0), "cuGraphInstantiate");
  if (graph != nullptr) api_.GraphDestroy(graph);
  return made;
}

bool Runner::Launch(const ReadyProgram& program) {
  for (const ReadyLaunch& launch : program.launches) {
    if (launch.function == nullptr) {
      if (!Check(
              api_.MemcpyDtoDAsync(launch.values[0], launch.values[1], launch.values[2], stream_),
              "cuMemcpyDtoDAsync")) {
        return false;
      }
      continue;
    }
    if (!Check(api_.LaunchKernelEx(&launch.config, launch.function,
                                   const_cast<void**>(launch.parameters.data()), nullptr),
               "cuLaunchKernelEx")) {
      return false;
    }
  }
  return true;
}

void Runner::Deliver() {
  if (std::exchange(delivers_, false)) object_->Deliver();
}

Runner::ReadyProgram* Runner::Find(uint32_t slot, uint32_t program) {
  if (slot >= kSlots || program >= programs_[slot].size()) {
    Refuse("no such program");
    return nullptr;
  }
  return &programs_[slot][program];
}

bool Runner::Run(const Request& request, std::span<const RunRecord> runs) {
  const int64_t start_ns = clock_.MonotonicNs();
  bool ok = true;
  for (const RunRecord& run : runs) {
    ReadyProgram* const program = Find(run.slot, run.program);
    ok = program != nullptr && Enqueue(*program, request.replay != 0);
    if (!ok) break;
    Deliver();
  }
  // Also after a failure: no work may continue after the reply.
  const CUresult ended = api_.CtxSynchronize();
  reply_.wall_ns = clock_.MonotonicNs() - start_ns;
  return Finish(ok, ended);
}

bool Runner::Poison(const PoisonRecord& record) {
  const Arena arena = record.arena < kMaxArenas ? arenas_[record.arena] : Arena{};
  if (arena.address == 0 || record.offset > arena.bytes ||
      record.bytes > arena.bytes - record.offset || ((record.bytes | record.offset) & 3) != 0) {
    return Refuse("kTime: poison");
  }
  return record.bytes == 0 || Check(api_.MemsetD32Async(arena.address + record.offset,
                                                        record.pattern, record.bytes / 4, stream_),
                                    "cuMemsetD32Async");
}

bool Runner::Time(const Request& request, std::span<const SampleRecord> samples,
                  std::span<const PoisonRecord> poisons) {
  if (object_ != nullptr && !std::exchange(sealed_, true)) loader_->Seal();
  // The measured time begins when the device has taken up work of this process. Before that, the
  // driver may let the first call wait, and the device may still work for another process.
  bool ok = Check(api_.CtxResetPersistingL2Cache(), "cuCtxResetPersistingL2Cache") &&
            Check(api_.EventRecord(events_[0], stream_), "cuEventRecord") &&
            Check(api_.EventSynchronize(events_[0]), "cuEventSynchronize");
  const int64_t start_ns = clock_.MonotonicNs();
  int64_t programs_ns = 0;
  // Work before the first sample, so that the device never waits for a launch.
  ok = ok && Check(api_.MemsetD32Async(flush_, 0, flush_bytes_ / 4, stream_), "cuMemsetD32Async");
  for (size_t i = 0; i < samples.size() && ok; ++i) {
    const SampleRecord& sample = samples[i];
    ReadyProgram* const program = Find(sample.slot, sample.program);
    if (program == nullptr || sample.first_poison > poisons.size() ||
        sample.poisons > poisons.size() - sample.first_poison) {
      ok = program != nullptr && Refuse("kTime: sample");
      break;
    }
    ok = Check(api_.EventRecord(events_[3 * i], stream_), "cuEventRecord");
    // Between two calls, like the overwriting of outputs.
    Deliver();
    for (const PoisonRecord& poison : poisons.subspan(sample.first_poison, sample.poisons)) {
      ok = ok && Poison(poison);
    }
    for (uint32_t flush = 0; flush < request.flushes && ok; ++flush) {
      ok = Check(
          api_.MemsetD32Async(flush_, static_cast<unsigned int>(i), flush_bytes_ / 4, stream_),
          "cuMemsetD32Async");
    }
    ok = ok && Check(api_.EventRecord(events_[3 * i + 1], stream_), "cuEventRecord");
    const int64_t program_ns = clock_.MonotonicNs();
    ok = ok && Enqueue(*program, request.replay != 0);
    programs_ns += clock_.MonotonicNs() - program_ns;
    ok = ok && Check(api_.EventRecord(events_[3 * i + 2], stream_), "cuEventRecord");
  }
  Deliver();
  reply_.launching_ns = clock_.MonotonicNs() - start_ns - programs_ns;
  const CUresult ended = api_.CtxSynchronize();
  reply_.wall_ns = clock_.MonotonicNs() - start_ns;
  if (!Finish(ok, ended)) {
    return false;
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t part = 0; part < 2; ++part) {
      float milliseconds = 0;
      if (!Check(api_.EventElapsedTime(&milliseconds, events_[3 * i + part],
                                       events_[3 * i + part + 1]),
                 "cuEventElapsedTime")) {
        return false;
      }
      values_.push_back(1000 * milliseconds);
    }
  }
  return true;
}

bool Runner::Do(std::span<const std::byte> packet, int fd) {
  Request request;
  if (packet.size() < sizeof(request)) {
    return Refuse("a packet is too short");
  }
  std::memcpy(&request, packet.data(), sizeof(request));
  reply_.command = request.command;
  switch (request.command) {
    case Command::kHello: return true;
    case Command::kMap: return Map(request, fd);
    case Command::kUnmap:
      if (request.slot >= kMaxArenas) return Refuse("kUnmap");
      Unmap(request.slot);
      return true;
    case Command::kLoad: return Load(request, fd);
    case Command::kUnload:
      if (request.slot >= kSlots) return Refuse("kUnload");
      Unload(request.slot);
      return true;
    case Command::kPrograms: return TakePrograms(request, fd);
    case Command::kRun: {
      const auto runs = Records<RunRecord>(packet, sizeof(request), request.count);
      return runs && runs->size() <= kMaxRuns ? Run(request, *runs) : Refuse("kRun");
    }
    case Command::kTime: {
      const auto samples = Records<SampleRecord>(packet, sizeof(request), request.count);
      const auto poisons = Records<PoisonRecord>(
          packet, sizeof(request) + request.count * sizeof(SampleRecord), request.extra);
      return samples && poisons && samples->size() <= kMaxSamples && poisons->size() <= kMaxPoisons
                 ? Time(request, *samples, *poisons)
                 : Refuse("kTime");
    }
    case Command::kLoadObject: {
      const auto records = Records<ObjectRecord>(packet, sizeof(request), request.count);
      return records ? LoadObject(*records, fd) : Refuse("kLoadObject");
    }
    case Command::kTrace: return Trace(request, packet, fd);
    case Command::kCount: return Count(request, packet, fd);
  }
  return Refuse("no such command");
}

Runner::Answer Runner::Handle(std::span<const std::byte> packet, int fd) {
  values_.clear();
  // A runner that could not start gives the reason in reply to any command.
  if (started_) {
    reply_ = {};
    if (!Do(packet, fd)) {
      values_.clear();
    }
  }
  reply_.values = values_.size();
  return {reply_, values_};
}

void Runner::Serve(int socket) {
  std::vector<std::byte> packet(kMaxPacketBytes);
  for (;;) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec part{packet.data(), packet.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return;  // the worker has exited
    }
    Descriptor fd;
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(header), sizeof(received));
      fd.reset(received);
    }
    Answer answer = Handle({packet.data(), static_cast<size_t>(got)}, fd.get());
    std::array<iovec, 2> out = {
        iovec{const_cast<Reply*>(&answer.reply), sizeof(answer.reply)},
        iovec{const_cast<float*>(answer.values.data()), answer.values.size_bytes()}};
    msghdr reply{};
    reply.msg_iov = out.data();
    reply.msg_iovlen = answer.values.empty() ? 1 : 2;
    if (sendmsg(socket, &reply, MSG_NOSIGNAL) < 0) {
      return;
    }
  }
}

}  // namespace kernelcast::worker::cuda_runner
