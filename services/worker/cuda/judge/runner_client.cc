#include "services/worker/cuda/judge/runner_client.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/process/memory_file.h"
#include "common/process/process_limit.h"
#include "common/process/send_descriptors.h"
#include "services/worker/core/options.h"
#include "services/worker/native/shared_object.h"
#include "services/worker/python/task_programs.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::Command;
using cuda_runner::Failure;
using cuda_runner::Reply;
using cuda_runner::Request;

// Interval at which a stopped token is checked while the runner works.
constexpr int kPollMs = 20;
// On a virtual machine a process that sleeps may wake hundreds of microseconds late. Timed requests
// are mostly shorter than this.
constexpr int64_t kAwakeNs = 5'000'000;
constexpr int64_t kFallAsleepNs = 1'000'000;
constexpr int64_t kReapLimitNs = 10'000'000'000;
// LACKS_MEMORY in cuda_runner.py
constexpr int kLacksMemoryExitCode = 12;

constexpr const char* kVisibleDevices = "CUDA_VISIBLE_DEVICES";

// Only the variables that the driver uses; nothing else is inherited.
std::vector<std::string> RunnerEnvironment(const CudaRunnerOptions& options) {
  const std::string& library_folder = options.library_folder;
  std::vector<std::string> environment;
  if (!options.visible_device.empty()) {
    environment.push_back(absl::StrCat(kVisibleDevices, "=", options.visible_device));
  }
  for (const char* name : {kVisibleDevices, "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
                           "CUDA_MPS_PIPE_DIRECTORY"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && (name != kVisibleDevices || options.visible_device.empty())) {
      environment.push_back(absl::StrCat(name, "=", value));
    }
  }
  if (options.python != nullptr && !options.several_streams) {
    environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS=1");
  }
  if (!options.profiler_library.empty()) {
    environment.push_back(absl::StrCat("KERNELCAST_PROFILER=", options.profiler_library));
  }
  const char* const searched = std::getenv("LD_LIBRARY_PATH");
  std::string folders = searched == nullptr ? "" : searched;
  if (!library_folder.empty()) {
    absl::StrAppend(&folders, folders.empty() ? "" : ":", library_folder);
  }
  if (!folders.empty()) {
    environment.push_back(absl::StrCat("LD_LIBRARY_PATH=", folders));
  }
  return environment;
}

template <class Record>
std::span<const std::byte> Bytes(std::span<const Record> records) {
  return std::as_bytes(records);
}

Request Hello() {
  Request hello{};
  hello.command = Command::kHello;
  return hello;
}

std::vector<std::byte> Joined(std::span<const cuda_runner::SampleRecord> samples,
                              std::span<const cuda_runner::PoisonRecord> poisons) {
  std::vector<std::byte> records(samples.size_bytes() + poisons.size_bytes());
  std::copy_n(Bytes(samples).data(), samples.size_bytes(), records.data());
  std::copy_n(Bytes(poisons).data(), poisons.size_bytes(), records.data() + samples.size_bytes());
  return records;
}

// Leaves a processor to the processes that are timed on it.
void LeaveProcessor(pid_t process, int cpu) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (cpu < 0 || sched_getaffinity(process, sizeof(allowed), &allowed) != 0) return;
  CPU_CLR(static_cast<size_t>(cpu), &allowed);
  if (CPU_COUNT(&allowed) > 0) sched_setaffinity(process, sizeof(allowed), &allowed);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaRunner>> CudaRunner::Start(const CudaRunnerOptions& options,
                                                              const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(auto runner, Begin(options));
  KC_RETURN_IF_ERROR(runner->AwaitStart(cancel));
  return runner;
}

absl::StatusOr<std::unique_ptr<CudaRunner>> CudaRunner::Begin(const CudaRunnerOptions& options) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return absl::UnavailableError(absl::StrCat("socketpair: ", std::strerror(errno)));
  }
  const int buffer = 4 * static_cast<int>(cuda_runner::kMaxPacketBytes);
  for (const int socket : sockets) {
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
  }
  ChildOptions child;
  child.argv = {options.path};
  child.argv.insert(child.argv.end(), options.arguments.begin(), options.arguments.end());
  child.environment = RunnerEnvironment(options);
  child.descriptors = {{sockets[1], cuda_runner::kSocketFd}};
  child.max_output_bytes = kMaxCandidateOutputBytes;
  auto spawned = options.python != nullptr ? options.python->Fork({&sockets[1], 1}, child)
                                           : ChildProcess::Spawn(child);
  close(sockets[1]);
  if (!spawned.ok()) {
    close(sockets[0]);
    return absl::UnavailableError(
        absl::StrCat("the runner cannot be started: ", spawned.status().message()));
  }
  LeaveProcessor((*spawned)->pid(), options.timing_cpu);
  std::unique_ptr<CudaRunner> runner(new CudaRunner(*std::move(spawned), sockets[0], options));
  runner->began_ns_ = Clock::Real().MonotonicNs();
  if (!runner->Send(Hello(), {}, -1)) {
    runner->Lost(End::kGone);
  }
  return runner;
}

absl::Status CudaRunner::AwaitStart(const CancelToken& cancel) {
  const Answer answer =
      alive_ ? Receive(Hello(), began_ns_, options_.start_limit_ns, cancel, 0) : Lost(End::kGone);
  if (answer.end == End::kStopped) {
    return cancel.Check();
  }
  if (!answer.ok()) {
    alive_ = false;
    const bool lacks_memory =
        answer.lacks_memory() ||
        (answer.end == End::kFailed && answer.reply.failure == cuda_runner::Failure::kDriver &&
         answer.reply.cuda_error == CUDA_ERROR_OUT_OF_MEMORY);
    return absl::Status(
        lacks_memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
        absl::StrCat("the runner cannot use the device: ", FailureText(answer),
                     child_->output().empty() ? "" : "; ", child_->output()));
  }
  return absl::OkStatus();
}

bool CudaRunner::Answer::ExitedWith(int code) const {
  return end == End::kGone && exit.signal == 0 && exit.exit_code == code;
}

bool CudaRunner::Answer::lacks_memory() const { return ExitedWith(kLacksMemoryExitCode); }

bool CudaRunner::Answer::took_output_memory() const {
  return ExitedWith(kTookOutputMemoryExitCode);
}

std::optional<WrongResult::Cause> CudaRunner::Answer::wrong_form() const {
  return ExitedWith(exit.exit_code) ? WrongFormOf(exit.exit_code) : std::nullopt;
}

bool CudaRunner::Answer::not_compiled() const { return ExitedWith(kNotCompiledExitCode); }

bool CudaRunner::Answer::illegal_address() const { return ExitedWith(kIllegalAddressExitCode); }

CudaRunner::~CudaRunner() { close(socket_); }

void CudaRunner::Kill() {
  alive_ = false;
  child_->Kill();
}

void CudaRunner::AwaitSleep() const {
  const int64_t end_ns = Clock::Real().MonotonicNs() + kFallAsleepNs;
  while (!clock_.Sleeps() && Clock::Real().MonotonicNs() < end_ns) sched_yield();
}

CudaRunner::Answer CudaRunner::Lost(End end) {
  alive_ = false;
  child_->Kill();
  Answer answer;
  answer.end = end;
  // The driver may take long to end a hanging kernel. In these cases the exit status is not needed,
  // and the destructor waits for the process.
  if (end != End::kTimeout && end != End::kStopped) {
    answer.exit = child_->Wait(kReapLimitNs);
  }
  return answer;
}

int64_t CudaRunner::ResidentBytes() const {
  std::ifstream file(absl::StrCat("/proc/", child_->pid(), "/status"));
  int64_t bytes = 0;
  for (std::string line; std::getline(file, line);) {
    for (const std::string_view name : {"RssAnon:", "RssShmem:"}) {
      if (line.starts_with(name)) bytes += std::strtoll(&line[name.size()], nullptr, 10) * 1024;
    }
  }
  return bytes;
}

// The process's own limit covers private memory. This one also covers shared memory.
bool CudaRunner::ExceedsMemory() const {
  return max_resident_bytes_ > 0 && ResidentBytes() > max_resident_bytes_;
}

CudaRunner::Answer CudaRunner::Ask(const Request& request, std::span<const std::byte> records,
                                   int fd, int64_t limit_ns, const CancelToken& cancel,
                                   int64_t awake_ns) {
  if (!alive_) {
    return Lost(End::kGone);
  }
  const int64_t start_ns = Clock::Real().MonotonicNs();
  // Check here too: answers may arrive so quickly that the loop below never waits.
  if (cancel.stopped()) {
    Answer answer;
    answer.end = End::kStopped;
    return answer;
  }
  // An unsolicited answer can only come from a candidate.
  char unasked = 0;
  if (recv(socket_, &unasked, 1, MSG_DONTWAIT | MSG_PEEK) > 0) {
    return Lost(End::kForged);
  }
  if (!Send(request, records, fd)) {
    return Lost(End::kGone);
  }
  return Receive(request, start_ns, limit_ns, cancel, awake_ns);
}

bool CudaRunner::Send(const Request& request, std::span<const std::byte> records, int fd) {
  const iovec parts[] = {{const_cast<Request*>(&request), sizeof(request)},
                         {const_cast<std::byte*>(records.data()), records.size()}};
  return SendDescriptors(socket_, std::span(parts).first(records.empty() ? 1 : 2),
                         std::span(&fd, fd >= 0 ? 1 : 0));
}

CudaRunner::Answer CudaRunner::Receive(const Request& request, int64_t start_ns, int64_t limit_ns,
                                       const CancelToken& cancel, int64_t awake_ns) {
  ProcessLimit limit(child_->pid(), limit_ns, ProcessLimit::Watch::kAlways);
  // Reads the runner's output now, because its writes block.
  pollfd ready[] = {{socket_, POLLIN, 0}, {child_->output_fd(), POLLIN, 0}};
  while (Clock::Real().MonotonicNs() < start_ns + awake_ns && poll(ready, 1, 0) == 0) {
    sched_yield();
  }
  const int wait_ms = static_cast<int>(std::clamp<int64_t>(limit_ns / 1'000'000 + 1, 1, kPollMs));
  for (;;) {
    ready[1].fd = child_->output_fd();
    poll(ready, 2, wait_ms);
    if (ready[0].revents != 0) {
      break;
    }
    // Reads the runner's output, and kills it if there is too much.
    child_->Poll();
    if (limit.Exceeded()) {
      return Lost(End::kTimeout);
    }
    if (cancel.stopped()) {
      return Lost(End::kStopped);
    }
    if (ExceedsMemory()) {
      return Lost(End::kTooLarge);
    }
  }
  std::vector<std::byte> packet(cuda_runner::kMaxPacketBytes);
  ssize_t got = -1;
  do {
    got = recv(socket_, packet.data(), packet.size(), 0);
  } while (got < 0 && errno == EINTR);
  Answer answer;
  answer.wall_ns = Clock::Real().MonotonicNs() - start_ns;
  if (got < static_cast<ssize_t>(sizeof(Reply))) {
    return Lost(got <= 0 ? End::kGone : End::kForged);
  }
  if (ExceedsMemory()) {
    return Lost(End::kTooLarge);
  }
  std::memcpy(&answer.reply, packet.data(), sizeof(Reply));
  const size_t values = (static_cast<size_t>(got) - sizeof(Reply)) / sizeof(float);
  // A runner that could not start gives the reason in reply to any command.
  if (answer.reply.values != values ||
      (answer.reply.failure == Failure::kNone && answer.reply.command != request.command)) {
    return Lost(End::kForged);
  }
  answer.values_us.resize(values);
  if (values > 0) {
    std::memcpy(answer.values_us.data(), packet.data() + sizeof(Reply), values * sizeof(float));
  }
  if (answer.reply.failure != Failure::kNone) {
    answer.end = End::kFailed;
    alive_ = answer.reply.context_lost == 0;
  }
  return answer;
}

CudaRunner::Answer CudaRunner::Map(uint32_t arena, int fd, uint64_t bytes, bool writable,
                                   const CancelToken& cancel, uint32_t padding) {
  Request request{};
  request.command = Command::kMap;
  request.slot = arena;
  request.bytes = bytes;
  request.extra = padding;
  request.writable = writable ? 1 : 0;
  return Ask(request, {}, fd, options_.start_limit_ns, cancel);
}

CudaRunner::Answer CudaRunner::Unmap(uint32_t arena, const CancelToken& cancel) {
  Request request{};
  request.command = Command::kUnmap;
  request.slot = arena;
  return Ask(request, {}, -1, options_.start_limit_ns, cancel);
}

absl::StatusOr<CudaRunner::Answer> CudaRunner::Load(uint32_t slot, const std::string& cubin,
                                                    const std::vector<std::string>& kernels,
                                                    int64_t limit_ns, const CancelToken& cancel) {
  std::string content = cubin;
  for (const std::string& kernel : kernels) {
    content += kernel;
    content += '\0';
  }
  KC_ASSIGN_OR_RETURN(const MemoryFile file, MemoryFile::FromContent("kernelcast-cubin", content));
  Request request{};
  request.command = Command::kLoad;
  request.slot = slot;
  request.bytes = cubin.size();
  request.count = static_cast<uint32_t>(kernels.size());
  request.extra = static_cast<uint32_t>(content.size() - cubin.size());
  return Ask(request, {}, file.fd(), limit_ns, cancel);
}

absl::StatusOr<CudaRunner::Answer> CudaRunner::LoadObject(const std::string& object,
                                                          int64_t limit_ns,
                                                          const CancelToken& cancel) {
  LoadableObject prepared;
  if (options_.python != nullptr) {
    prepared.content = object;
  } else {
    KC_ASSIGN_OR_RETURN(prepared, PrepareObject(object));
  }
  if (options_.object_memory_bytes > 0) {
    if (prepared.memory_bytes > static_cast<uint64_t>(options_.object_memory_bytes)) {
      Answer answer;
      answer.end = End::kTooLarge;
      return answer;
    }
    max_resident_bytes_ = ResidentBytes() + options_.object_memory_bytes;
  }
  KC_ASSIGN_OR_RETURN(const MemoryFile file,
                      MemoryFile::FromContent("kernelcast-object", prepared.content));
  cuda_runner::ObjectRecord record{};
  record.init_function = prepared.init_function;
  record.init_array = prepared.init_array;
  record.init_array_entries = prepared.init_array_entries;
  record.max_memory_bytes = static_cast<uint64_t>(options_.object_memory_bytes);
  record.uid = options_.object_uid;
  Request request{};
  request.command = Command::kLoadObject;
  request.count = 1;
  load_answer_ = Ask(request, std::as_bytes(std::span(&record, 1)), file.fd(), limit_ns, cancel);
  return *load_answer_;
}

CudaRunner::Answer CudaRunner::Unload(uint32_t slot, const CancelToken& cancel) {
  Request request{};
  request.command = Command::kUnload;
  request.slot = slot;
  return Ask(request, {}, -1, options_.start_limit_ns, cancel);
}

absl::StatusOr<CudaRunner::Answer> CudaRunner::SetPrograms(
    uint32_t slot, std::span<const cuda_runner::Program> programs, int64_t limit_ns,
    const CancelToken& cancel) {
  const std::vector<std::byte> content = cuda_runner::WritePrograms(programs);
  KC_ASSIGN_OR_RETURN(
      const MemoryFile file,
      MemoryFile::FromContent("kernelcast-programs",
                              {reinterpret_cast<const char*>(content.data()), content.size()}));
  Request request{};
  request.command = Command::kPrograms;
  request.slot = slot;
  request.bytes = content.size();
  request.count = static_cast<uint32_t>(programs.size());
  return Ask(request, {}, file.fd(), limit_ns, cancel);
}

void CudaRunner::BeginTiming() const {
  if (options_.timing_cpu < 0 || !alive_) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(options_.timing_cpu), &one);
  // Without permission it stays where it is.
  sched_setaffinity(child_->pid(), sizeof(one), &one);
}

CudaRunner::Answer CudaRunner::Wake(int64_t limit_ns, const CancelToken& cancel) {
  return Ask(Hello(), {}, -1, limit_ns, cancel, kAwakeNs);
}

CudaRunner::Answer CudaRunner::Run(std::span<const cuda_runner::RunRecord> runs, int64_t limit_ns,
                                   const CancelToken& cancel, bool replay) {
  Request request{};
  request.command = Command::kRun;
  request.replay = replay ? 1 : 0;
  request.count = static_cast<uint32_t>(runs.size());
  return Ask(request, Bytes(runs), -1, limit_ns, cancel);
}

CudaRunner::Answer CudaRunner::Time(std::span<const cuda_runner::SampleRecord> samples,
                                    std::span<const cuda_runner::PoisonRecord> poisons,
                                    uint32_t flushes, int64_t limit_ns, const CancelToken& cancel,
                                    bool replay) {
  Request request{};
  request.command = Command::kTime;
  request.replay = replay ? 1 : 0;
  request.count = static_cast<uint32_t>(samples.size());
  request.extra = static_cast<uint32_t>(poisons.size());
  request.flushes = flushes;
  Answer answer = Ask(request, Joined(samples, poisons), -1, limit_ns, cancel, kAwakeNs);
  if (answer.ok() && answer.values_us.size() != 2 * samples.size()) {
    return Lost(End::kForged);
  }
  return answer;
}

absl::StatusOr<CudaRunner::Answer> CudaRunner::Trace(cuda_runner::RunRecord call, uint32_t calls,
                                                     cuda_runner::TraceReport& report,
                                                     int64_t limit_ns, const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(const MemoryFile file, MemoryFile::Create("kernelcast-trace", sizeof(report),
                                                                MemoryFile::Sharing::kReadWrite));
  Request request{};
  request.command = Command::kTrace;
  request.count = 1;
  request.extra = calls;
  Answer answer = Ask(request, Bytes(std::span<const cuda_runner::RunRecord>(&call, 1)), file.fd(),
                      limit_ns, cancel);
  std::memcpy(&report, file.data(), sizeof(report));
  return answer;
}

absl::StatusOr<CudaRunner::Answer> CudaRunner::Count(
    std::span<const cuda_runner::SampleRecord> samples,
    std::span<const cuda_runner::PoisonRecord> poisons, cuda_runner::CountReport& report,
    int64_t limit_ns, const CancelToken& cancel) {
  KC_ASSIGN_OR_RETURN(
      const MemoryFile file,
      MemoryFile::Create("kernelcast-counters", sizeof(report), MemoryFile::Sharing::kReadWrite));
  Request request{};
  request.command = Command::kCount;
  request.count = static_cast<uint32_t>(samples.size());
  request.extra = static_cast<uint32_t>(poisons.size());
  request.flushes = 1;
  Answer answer = Ask(request, Joined(samples, poisons), file.fd(), limit_ns, cancel);
  std::memcpy(&report, file.data(), sizeof(report));
  return answer;
}

std::string CudaRunner::FailureText(const Answer& answer) {
  switch (answer.end) {
    case End::kDone: return "";
    case End::kTimeout: return "it did not answer in time";
    case End::kGone: return "it ended";
    case End::kForged: return "it sent an unexpected answer";
    case End::kStopped: return "it was stopped";
    case End::kTooLarge: return "it exceeded its limit of host memory";
    case End::kFailed: break;
  }
  std::string where(answer.reply.where, strnlen(answer.reply.where, sizeof(answer.reply.where)));
  switch (answer.reply.failure) {
    case Failure::kRequest:
    case Failure::kObject: return where;
    case Failure::kEntry: return absl::StrCat(where, " returned ", answer.reply.cuda_error);
    default: break;
  }
  return absl::StrCat(where, ": CUDA error ", answer.reply.cuda_error);
}

absl::Status AnswerStatus(const CudaApi& api, const CudaRunner::Answer& answer,
                          const CancelToken& cancel, const std::string& what,
                          absl::StatusCode late) {
  if (answer.ok()) {
    return absl::OkStatus();
  }
  if (answer.end == CudaRunner::End::kStopped) {
    return cancel.Check();
  }
  const std::string text = absl::StrCat(what, ": ", CudaRunner::FailureText(answer));
  if (answer.end == CudaRunner::End::kGone || answer.end == CudaRunner::End::kForged) {
    return absl::UnavailableError(text);
  }
  if (answer.end == CudaRunner::End::kTimeout) {
    return absl::Status(late, text);
  }
  if (answer.reply.failure == cuda_runner::Failure::kDriver) {
    const absl::Status status =
        CudaStatus(api, static_cast<CUresult>(answer.reply.cuda_error), what);
    return absl::Status(absl::IsAborted(status) || absl::IsInvalidArgument(status)
                            ? absl::StatusCode::kFailedPrecondition
                            : status.code(),
                        status.message());
  }
  return absl::FailedPreconditionError(text);
}

}  // namespace kernelcast::worker
