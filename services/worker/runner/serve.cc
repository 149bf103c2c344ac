#include "services/worker/runner/serve.h"

#include <immintrin.h>
#include <limits.h>
#include <linux/futex.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "services/worker/runner/hostile_memory.h"

namespace kernelcast::worker::runner {
namespace {

constexpr int kGiveUpExitCode = 70;
// glibc accepts no larger threshold.
constexpr int kMmapThresholdBytes = 32 << 20;

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

void* Map(int fd, size_t bytes, int protection) {
  void* address = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  return address == MAP_FAILED ? nullptr : address;
}

}  // namespace

void GiveUp(StartBlock* start, Failure failure, const char* why) {
  fprintf(stderr, "runner: %s\n", why);
  fflush(stderr);
  if (start != nullptr) {
    start->failure.store(failure);
  }
  _exit(kGiveUpExitCode);
}

void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, kMmapThresholdBytes);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

Blocks MapBlocks() {
  struct stat info;
  if (fstat(kControlFd, &info) != 0 || info.st_size < static_cast<off_t>(kCaseTableOffset)) {
    GiveUp(nullptr, kBadArguments, "the runner is started by the worker only");
  }
  Blocks blocks;
  blocks.control = static_cast<ControlBlock*>(
      Map(kControlFd, static_cast<size_t>(info.st_size), PROT_READ | PROT_WRITE));
  ControlBlock* const block = blocks.control;
  if (block == nullptr || block->magic != kMagic) {
    GiveUp(nullptr, kBadArguments, "no control block");
  }
  blocks.start =
      static_cast<StartBlock*>(Map(kStartFd, sizeof(StartBlock), PROT_READ | PROT_WRITE));
  if (blocks.start == nullptr) {
    GiveUp(nullptr, kBadArguments, "no start block");
  }
  blocks.inputs = static_cast<char*>(Map(kInputsFd, block->inputs_bytes, PROT_READ));
  blocks.outputs =
      static_cast<char*>(Map(kOutputsFd, block->outputs_bytes, PROT_READ | PROT_WRITE));
  if (blocks.inputs == nullptr || blocks.outputs == nullptr) {
    GiveUp(blocks.start, kMapFailed, "cannot map the tensors");
  }
  // Populate page tables now rather than in the first calls.
  madvise(blocks.inputs, block->inputs_bytes, MADV_POPULATE_READ);
  madvise(blocks.outputs, block->outputs_bytes, MADV_POPULATE_WRITE);
  block->inputs_address.store(reinterpret_cast<uint64_t>(blocks.inputs));
  block->outputs_address.store(reinterpret_cast<uint64_t>(blocks.outputs));
  if (block->cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(block->cpu), &set);
    sched_setaffinity(0, sizeof(set), &set);
  }
  return blocks;
}

const Case* BuildCases(const Blocks& blocks) {
  const ControlBlock* const block = blocks.control;
  const auto* records =
      reinterpret_cast<const CaseRecord*>(reinterpret_cast<const char*>(block) + kCaseTableOffset);
  Case* cases = static_cast<Case*>(calloc(block->case_count + 1, sizeof(Case)));
  for (uint32_t i = 0; i < block->case_count; ++i) {
    const CaseRecord& record = records[i];
    const size_t count = size_t{record.inputs} + record.outputs;
    auto* tensors = static_cast<DLTensor*>(calloc(count, sizeof(DLTensor)));
    auto* shapes = static_cast<int64_t*>(calloc(count * kMaxDimensions, sizeof(int64_t)));
    for (size_t t = 0; t < count; ++t) {
      const TensorRecord& tensor = record.tensors[t];
      int64_t* shape = shapes + t * kMaxDimensions;
      memcpy(shape, tensor.shape, sizeof(tensor.shape));
      tensors[t].data = (t < record.inputs ? blocks.inputs : blocks.outputs) + tensor.offset;
      tensors[t].device = DLDevice{kDLCPU, 0};
      tensors[t].ndim = tensor.dimensions;
      tensors[t].dtype = DLDataType{tensor.dlpack_code, tensor.dlpack_bits, 1};
      tensors[t].shape = shape;
    }
    cases[i] = {tensors, static_cast<int32_t>(record.inputs), static_cast<int32_t>(record.outputs)};
  }
  return cases;
}

void Serve(ControlBlock* block, const Case* cases, CallProgram call, const void* context) {
  block->ready.store(1);
  FutexWake(&block->ready);
  uint32_t served = 0;  // the first command may already be there
  bool linger = true;
  for (;;) {
    served = AwaitCommand(block, served, linger);
    linger = block->linger.load(std::memory_order_relaxed) != 0;
    int32_t status = 0;
    const uint32_t command = block->command.load(std::memory_order_relaxed);
    if (command != kNop) {
      const uint32_t index = block->case_index.load(std::memory_order_relaxed);
      const Case& c = cases[index];
      if (command != kRun) {
        const uint32_t word = command == kRunOnNan ? kNanWord : kFiniteWord;
        FillHeap(word);
        FillStack(word);
      }
      status = call(c, index, context);
    }
    block->entry_status.store(status, std::memory_order_relaxed);
    block->done_sequence.store(served);
    if (block->judge_sleeps.load() != 0) {
      FutexWake(&block->done_sequence);
    }
  }
}

}  // namespace kernelcast::worker::runner
