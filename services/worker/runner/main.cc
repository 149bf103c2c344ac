// The process that a candidate runs in: loads one shared object, drops everything that a kernel
// does not need, and calls the entry on the judge's commands. Not meant to be started by hand.
#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <immintrin.h>
#include <link.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "services/worker/runner/allocation_watch.h"
#include "services/worker/runner/control.h"
#include "services/worker/runner/hostile_memory.h"
#include "services/worker/runner/sandbox.h"

namespace kernelcast::worker::runner {
namespace {

using Entry = int32_t (*)(const DLTensor*, int32_t, const DLTensor*, int32_t, void*);

constexpr int kGiveUpExitCode = 70;

struct Case {
  DLTensor* tensors;
  int32_t inputs;
  int32_t outputs;
};

[[noreturn]] void GiveUp(StartBlock* start, Failure failure, const char* why) {
  fprintf(stderr, "runner: %s\n", why);
  fflush(stderr);
  if (start != nullptr) {
    start->failure.store(failure);
  }
  _exit(kGiveUpExitCode);
}

void FutexWake(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void FutexWait(std::atomic<uint32_t>* word, uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, seen, nullptr, nullptr, 0);
}

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Waits for a command newer than `served`.
uint32_t AwaitCommand(ControlBlock* block, uint32_t served, bool linger) {
  uint32_t sequence = block->command_sequence.load(std::memory_order_acquire);
  if (linger) {
    int64_t end_ns = 0;
    for (uint32_t turns = 1; sequence == served; ++turns) {
      _mm_pause();
      if (turns % 64 == 0) {
        const int64_t now_ns = NowNs();
        if (end_ns == 0) {
          end_ns = now_ns + int64_t{block->spin_us} * 1000;
        } else if (now_ns > end_ns) {
          break;
        }
      }
      sequence = block->command_sequence.load(std::memory_order_acquire);
    }
  }
  while (sequence == served) {
    block->runner_sleeps.store(1);
    sequence = block->command_sequence.load();
    if (sequence == served) {
      FutexWait(&block->command_sequence, served);
      sequence = block->command_sequence.load();
    }
    block->runner_sleeps.store(0);
  }
  return sequence;
}

// Reads one byte of every cache line.
void Touch(const DLTensor& tensor) {
  int64_t bytes = tensor.dtype.bits / 8;
  for (int32_t d = 0; d < tensor.ndim; ++d) {
    bytes *= tensor.shape[d];
  }
  const volatile char* data = static_cast<const volatile char*>(tensor.data);
  for (int64_t i = 0; i < bytes; i += 64) {
    (void)data[i];
  }
}

[[noreturn]] void Serve(ControlBlock* block, const Case* cases, Entry entry) {
  uint32_t served = 0;  // the first command may already be there
  bool linger = true;
  for (;;) {
    served = AwaitCommand(block, served, linger);
    linger = block->linger.load(std::memory_order_relaxed) != 0;
    int32_t status = 0;
    const uint32_t command = block->command.load(std::memory_order_relaxed);
    if (command != kNop) {
      const Case& c = cases[block->case_index.load(std::memory_order_relaxed)];
      if (command != kTouch) {
        if (command != kRun) {
          const uint32_t word = command == kRunOnNan ? kNanWord : kFiniteWord;
          FillHeap(word);
          FillStack(word);
        }
        status = entry(c.tensors, c.inputs, c.tensors + c.inputs, c.outputs, nullptr);
      } else {
        for (int32_t i = 0; i < c.inputs + c.outputs; ++i) {
          Touch(c.tensors[i]);
        }
      }
    }
    block->entry_status.store(status, std::memory_order_relaxed);
    block->done_sequence.store(served);
    if (block->judge_sleeps.load() != 0) {
      FutexWake(&block->done_sequence);
    }
  }
}

void* Map(int fd, size_t bytes, int protection) {
  void* address = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  return address == MAP_FAILED ? nullptr : address;
}

// Builds the tensors of all cases in advance, so that a call only needs its index.
Case* BuildCases(ControlBlock* block, char* inputs, char* outputs) {
  const auto* records =
      reinterpret_cast<const CaseRecord*>(reinterpret_cast<const char*>(block) + kCaseTableOffset);
  Case* cases = static_cast<Case*>(calloc(block->case_count + 1, sizeof(Case)));
  for (uint32_t i = 0; i < block->case_count; ++i) {
    const CaseRecord& record = records[i];
    const uint32_t count = record.inputs + record.outputs;
    auto* tensors = static_cast<DLTensor*>(calloc(count, sizeof(DLTensor)));
    auto* shapes = static_cast<int64_t*>(calloc(count * kMaxDimensions, sizeof(int64_t)));
    for (uint32_t t = 0; t < count; ++t) {
      const TensorRecord& tensor = record.tensors[t];
      int64_t* shape = shapes + t * kMaxDimensions;
      memcpy(shape, tensor.shape, sizeof(tensor.shape));
      tensors[t].data = (t < record.inputs ? inputs : outputs) + tensor.offset;
      tensors[t].device = DLDevice{kDLCPU, 0};
      tensors[t].ndim = tensor.dimensions;
      tensors[t].dtype = DLDataType{tensor.dlpack_code, tensor.dlpack_bits, 1};
      tensors[t].shape = shape;
    }
    cases[i] = {tensors, static_cast<int32_t>(record.inputs), static_cast<int32_t>(record.outputs)};
  }
  return cases;
}

// Runs the object's constructors, which loading skipped.
void RunConstructors(const ControlBlock& block, uintptr_t base, int argc, char** argv) {
  using Function = void (*)(int, char**, char**);
  static char* no_environment[] = {nullptr};
  if (block.init_function != 0) {
    reinterpret_cast<Function>(base + block.init_function)(argc, argv, no_environment);
  }
  const auto* functions = reinterpret_cast<const uintptr_t*>(base + block.init_array);
  for (uint64_t i = 0; i < block.init_array_entries; ++i) {
    if (functions[i] != 0 && functions[i] != UINTPTR_MAX) {
      reinterpret_cast<Function>(functions[i])(argc, argv, no_environment);
    }
  }
}

int Run(int argc, char** argv) {
  struct stat info;
  if (fstat(kControlFd, &info) != 0 || info.st_size < static_cast<off_t>(kCaseTableOffset)) {
    GiveUp(nullptr, kBadArguments, "the runner is started by the worker only");
  }
  auto* block = static_cast<ControlBlock*>(
      Map(kControlFd, static_cast<size_t>(info.st_size), PROT_READ | PROT_WRITE));
  if (block == nullptr || block->magic != kMagic) {
    GiveUp(nullptr, kBadArguments, "no control block");
  }
  auto* start = static_cast<StartBlock*>(Map(kStartFd, sizeof(StartBlock), PROT_READ | PROT_WRITE));
  if (start == nullptr) {
    GiveUp(nullptr, kBadArguments, "no start block");
  }
  char* inputs = static_cast<char*>(Map(kInputsFd, block->inputs_bytes, PROT_READ));
  char* outputs = static_cast<char*>(Map(kOutputsFd, block->outputs_bytes, PROT_READ | PROT_WRITE));
  if (inputs == nullptr || outputs == nullptr) {
    GiveUp(start, kMapFailed, "cannot map the tensors");
  }
  // Populate page tables now rather than in the first calls.
  madvise(inputs, block->inputs_bytes, MADV_POPULATE_READ);
  madvise(outputs, block->outputs_bytes, MADV_POPULATE_WRITE);
  block->inputs_address.store(reinterpret_cast<uint64_t>(inputs));
  block->outputs_address.store(reinterpret_cast<uint64_t>(outputs));
  if (block->cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(block->cpu), &set);
    sched_setaffinity(0, sizeof(set), &set);
  }

  start->state.store(kLoading);
  char path[32];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", kObjectFd);
  void* object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const auto entry =
      object == nullptr ? nullptr : reinterpret_cast<Entry>(dlsym(object, "kernelcast_run"));
  if (entry == nullptr) {
    GiveUp(start, kLoadFailed, dlerror());
  }
  link_map* map = nullptr;
  if (dlinfo(object, RTLD_DI_LINKMAP, &map) != 0) {
    GiveUp(start, kLoadFailed, dlerror());
  }
  const Case* cases = BuildCases(block, inputs, outputs);
  close_range(STDERR_FILENO + 1, ~0u, 0);

  setvbuf(stdout, nullptr, _IONBF, 0);  // keep output printed before a crash
  WatchAllocations(&block->allocation_refused);
  InstallFaultReporters(block);
  start->protections.store(EnterSandbox(*block));

  start->state.store(kConstructing);
  // Its descriptor is closed, so no code in this process can change it any more.
  munmap(start, sizeof(StartBlock));
  RunConstructors(*block, map->l_addr, argc, argv);
  block->ready.store(1);
  FutexWake(&block->ready);
  Serve(block, cases, entry);
}

}  // namespace
}  // namespace kernelcast::worker::runner

int main(int argc, char** argv) { return kernelcast::worker::runner::Run(argc, argv); }
