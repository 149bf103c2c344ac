#include "services/worker/cpu/runner_process.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/process/process_limit.h"
#include "services/worker/core/verdict.h"

namespace kernelcast::worker {
namespace {

// While spinning, the child and the caller are looked after this often; a system call costs the
// judge a microsecond, but not the runner.
constexpr int64_t kHousekeepingNs = 1'000'000;
// Longer calls are waited for asleep: waking takes some 50 us.
constexpr int64_t kSpinNs = 30'000'000;
constexpr int64_t kSleepNs = 1'000'000;
constexpr int64_t kKeptOutputBytes = 4096;
// From saying so to being so: an interrupt may come between.
constexpr int64_t kFallAsleepNs = 100'000;

int64_t MonotonicNowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void FutexWake(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void FutexWait(std::atomic<uint32_t>* word, uint32_t seen, int64_t timeout_ns) {
  const timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

std::string SystemCallName(int number) {
  char* name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
  if (name == nullptr) {
    return absl::StrCat("number ", number);
  }
  std::string copy(name);
  free(name);
  return copy;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunnerProcess>> RunnerProcess::Start(
    const RunnerOptions& options, const Placement& placement, const Program& program,
    std::span<const runner::CaseRecord> cases, const MemoryFile& inputs,
    const MemoryFile& outputs) {
  std::unique_ptr<RunnerProcess> process(new RunnerProcess());
  const auto table_bytes = static_cast<int64_t>(cases.size_bytes());
  KC_ASSIGN_OR_RETURN(
      process->control_,
      MemoryFile::Create("kernelcast-control",
                         static_cast<int64_t>(runner::kCaseTableOffset) + table_bytes,
                         MemoryFile::Sharing::kReadWrite));
  KC_ASSIGN_OR_RETURN(process->start_,
                      MemoryFile::Create("kernelcast-start", sizeof(runner::StartBlock),
                                         MemoryFile::Sharing::kReadWrite));
  new (process->start_.data()) runner::StartBlock();
  const auto* const object = std::get_if<LoadableObject>(&program);
  const auto* const python = std::get_if<PythonProgram>(&program);
  if (python != nullptr && options.python == nullptr) {
    return absl::UnavailableError("there is no interpreter with PyTorch");
  }
  KC_ASSIGN_OR_RETURN(
      const MemoryFile content,
      MemoryFile::FromContent("kernelcast-object", python ? python->content : object->content));
  process->inputs_bytes_ = inputs.size();
  process->python_ = python != nullptr;
  process->judge_may_spin_ = !placement.alone();

  auto* block = new (process->control_.data()) runner::ControlBlock();
  block->magic = runner::kMagic;
  block->case_count = static_cast<uint32_t>(cases.size());
  block->inputs_bytes = static_cast<uint64_t>(inputs.size());
  block->outputs_bytes = static_cast<uint64_t>(outputs.size());
  if (object != nullptr) {
    block->init_function = object->init_function;
    block->init_array = object->init_array;
    block->init_array_entries = object->init_array_entries;
  }
  block->max_address_space_bytes =
      static_cast<uint64_t>(options.max_memory_bytes + inputs.size() + outputs.size());
  block->max_cpu_seconds = static_cast<uint64_t>(options.max_cpu_seconds);
  block->run_as_uid = options.uid;
  block->cpu = placement.runner_cpu;
  block->spin_us = placement.alone() ? 0 : options.spin_us;
  block->trapped_system_call.store(-1);
  std::memcpy(process->control_.data() + runner::kCaseTableOffset, cases.data(),
              static_cast<size_t>(table_bytes));

  // In the order of their numbers in the child.
  const int descriptors[] = {process->control_.fd(), inputs.fd(), outputs.fd(), content.fd(),
                             process->start_.fd()};
  static_assert(runner::kStartFd - runner::kControlFd + 1 == std::size(descriptors));
  ChildOptions child;
  child.max_output_bytes = options.max_output_bytes;
  child.kept_output_bytes = kKeptOutputBytes;
  absl::StatusOr<std::unique_ptr<ChildProcess>> spawned;
  if (python != nullptr) {
    spawned = options.python->Fork(descriptors, child);
  } else {
    child.argv = {options.path};
    child.working_directory = "/";
    for (int number = runner::kControlFd; const int descriptor : descriptors) {
      child.descriptors.emplace_back(descriptor, number++);
    }
    spawned = ChildProcess::Spawn(child);
  }
  if (!spawned.ok()) {
    return absl::UnavailableError(spawned.status().message());
  }
  process->child_ = *std::move(spawned);
  const pid_t pid = process->child_->pid();
  setpriority(PRIO_PROCESS, static_cast<id_t>(pid), kTimingNice);
  process->wait_meter_ = WaitMeter::OfProcess(pid);
  process->clock_ = ProcessClock(pid);
  return process;
}

RunnerProcess::End RunnerProcess::Await(uint32_t sequence, int64_t start_ns, int64_t limit_ns,
                                        const CancelToken& cancel, int64_t& end_ns) {
  std::atomic<uint32_t>& done = block().done_sequence;
  int64_t next_look_ns = start_ns + kHousekeepingNs;
  ProcessLimit limit(child_->pid(), limit_ns, ProcessLimit::Watch::kWhenPassed);
  bool asleep = !judge_may_spin_;
  for (;;) {
    for (int turn = 0; turn < 32 && !asleep; ++turn) {
      if (done.load(std::memory_order_acquire) == sequence) {
        end_ns = MonotonicNowNs();
        return End::kDone;
      }
      _mm_pause();
    }
    if (asleep) {
      block().judge_sleeps.store(1);
      const uint32_t seen = done.load();
      if (seen != sequence) {
        FutexWait(&done, seen, kSleepNs);
      }
      block().judge_sleeps.store(0);
      if (done.load() == sequence) {
        end_ns = MonotonicNowNs();
        return End::kDone;
      }
    }
    const int64_t now_ns = MonotonicNowNs();
    if (now_ns < next_look_ns) {
      continue;
    }
    next_look_ns = now_ns + kHousekeepingNs;
    if (child_->Poll()) {
      // It may have answered and then ended.
      end_ns = MonotonicNowNs();
      return done.load() == sequence ? End::kDone : End::kDied;
    }
    if (const std::optional<End> end = KillIfOver(limit, cancel)) return *end;
    asleep = asleep || now_ns - start_ns > kSpinNs;
  }
}

std::optional<RunnerProcess::End> RunnerProcess::KillIfOver(ProcessLimit& limit,
                                                            const CancelToken& cancel) {
  const bool late = limit.Exceeded();
  if (!late && !cancel.stopped()) return std::nullopt;
  child_->Kill();
  return late ? End::kLate : End::kStopped;
}

RunnerProcess::End RunnerProcess::WaitReady(int64_t limit_ns, const CancelToken& cancel) {
  ProcessLimit limit(child_->pid(), limit_ns, ProcessLimit::Watch::kWhenPassed);
  for (;;) {
    if (block().ready.load() != 0) {
      return End::kDone;
    }
    if (child_->Poll()) {
      return End::kDied;
    }
    if (const std::optional<End> end = KillIfOver(limit, cancel)) return *end;
    FutexWait(&block().ready, 0, kSleepNs);
  }
}

RunnerProcess::Result RunnerProcess::Call(runner::Command command, uint32_t case_index, bool linger,
                                          int64_t limit_ns, const CancelToken& cancel) {
  runner::ControlBlock& shared = block();
  shared.command.store(command, std::memory_order_relaxed);
  shared.case_index.store(case_index, std::memory_order_relaxed);
  shared.linger.store(linger ? 1 : 0, std::memory_order_relaxed);
  const uint32_t sequence = shared.command_sequence.load(std::memory_order_relaxed) + 1;

  Result result;
  const int64_t start_ns = MonotonicNowNs();
  shared.command_sequence.store(sequence);
  if (shared.runner_sleeps.load() != 0) {
    FutexWake(&shared.command_sequence);
  }
  int64_t end_ns = start_ns;
  result.end = Await(sequence, start_ns, limit_ns, cancel, end_ns);
  result.start_ns = start_ns;
  result.ns = end_ns - start_ns;
  result.status = shared.entry_status.load();
  return result;
}

absl::StatusOr<MeasureOutcome> RunnerProcess::Failure(End end, const std::string& stage,
                                                      int64_t limit_ns) {
  const ChildExit exit = child_->Wait(end == End::kDied ? int64_t{5'000'000'000} : 0);
  const runner::ControlBlock& shared = block();
  const std::string tail(TruncateUtf8Front(exit.output, kKeptOutputBytes));
  if (exit.output_limit) {
    Crash crash;
    crash.cause = Crash::Cause::kOutputLimit;
    crash.output_tail = tail;
    return crash;
  }
  if (end == End::kLate || exit.signal == SIGXCPU) {
    return Timeout{.limit_ns = limit_ns, .stage = stage};
  }
  if (start_block().state.load() < runner::kConstructing) {
    if (start_block().failure.load() == runner::kLoadFailed) {
      Crash crash;
      crash.cause = Crash::Cause::kLoad;
      crash.exit_code = exit.exit_code;
      crash.output_tail = tail;
      return crash;
    }
    return absl::UnavailableError(absl::StrCat("the runner could not start: exit code ",
                                               exit.exit_code, ", signal ", exit.signal, ": ",
                                               SanitizeUtf8(tail)));
  }
  if (python_ && exit.exited && exit.exit_code == kTookOutputMemoryExitCode) {
    return TookOutputMemory();
  }
  if (const auto cause = WrongFormOf(exit.exit_code); python_ && exit.exited && cause) {
    return WrongForm(*cause, tail);
  }
  if (exit.signal == SIGSYS) {
    const int number = shared.trapped_system_call.load();
    Exploit exploit;
    exploit.kind = Exploit::Kind::kForbiddenSystemCall;
    exploit.evidence = number < 0 ? "made a system call that no kernel needs"
                                  : absl::StrCat("made the system call ", SystemCallName(number),
                                                 ", which no kernel needs");
    return exploit;
  }
  const uint64_t address = shared.fault_address.load();
  const uint64_t inputs = shared.inputs_address.load();
  if ((exit.signal == SIGSEGV || exit.signal == SIGBUS) && address >= inputs &&
      address - inputs < static_cast<uint64_t>(inputs_bytes_)) {
    Exploit exploit;
    exploit.kind = Exploit::Kind::kMutatedInput;
    exploit.evidence = "wrote to an input, which is read-only";
    return exploit;
  }
  Crash crash;
  crash.output_tail = tail;
  crash.signal = exit.signal;
  crash.exit_code = exit.exit_code;
  // A SIGKILL that the judge did not send is the system's, for memory.
  const bool out_of_memory = shared.allocation_refused.load() != 0 || exit.signal == SIGKILL;
  crash.cause = out_of_memory && (exit.signal != 0 || exit.exit_code != 0)
                    ? Crash::Cause::kMemoryLimit
                : exit.exited ? Crash::Cause::kExit
                              : Crash::Cause::kSignal;
  return crash;
}

bool RunnerProcess::AwaitSleep(int64_t limit_ns) const {
  ProcessLimit limit(child_->pid(), limit_ns, ProcessLimit::Watch::kWhenPassed);
  for (bool first = true;; first = false) {
    const int64_t ran_ns = RanNs();
    for (const int64_t end_ns = MonotonicNowNs() + kFallAsleepNs; MonotonicNowNs() < end_ns;) {
      _mm_pause();
    }
    if (block().runner_sleeps.load() != 0 && clock_.Sleeps() && RanNs() == ran_ns) {
      return true;
    }
    if (limit.Exceeded()) {
      return false;
    }
    if (!first) {
      const timespec pause{0, 100'000};
      nanosleep(&pause, nullptr);
    }
  }
}

std::vector<std::string> RunnerProcess::missing_protections() const {
  static constexpr std::pair<uint32_t, const char*> kNames[] = {
      {runner::kSeccomp, "seccomp"},
      {runner::kLandlock, "landlock"},
      {runner::kNamespaces, "namespaces"},
      {runner::kNoNewPrivileges, "no_new_privileges"},
      {runner::kResourceLimits, "resource_limits"},
      {runner::kUnprivilegedUser, "unprivileged_user"},
      {runner::kParentDeathSignal, "parent_death_signal"},
  };
  const uint32_t had = start_block().protections.load();
  std::vector<std::string> missing;
  for (const auto& [bit, name] : kNames) {
    if ((had & bit) == 0) {
      missing.emplace_back(name);
    }
  }
  return missing;
}

}  // namespace kernelcast::worker
