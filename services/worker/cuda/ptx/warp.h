#ifndef KERNELCAST_SERVICES_WORKER_CUDA_PTX_WARP_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_PTX_WARP_H_

#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "services/worker/cuda/ptx/counters.h"
#include "services/worker/cuda/ptx/memory.h"
#include "services/worker/cuda/ptx/program.h"

namespace kernelcast::worker::ptx {

// Registers are read and written as whatever type an instruction has; what does so is compiled
// without the assumption that types do not alias.
using LaneU32 = uint32_t;
using LaneS32 = int32_t;
using LaneU64 = uint64_t;
using LaneS64 = int64_t;
using LaneF32 = float;
using LaneF64 = double;

// Sectors of 32 bytes, by lines of 128, that were touched before. Bounded: when it is full, what is
// new counts as new each time.
class Footprint {
 public:
  // Keeps up to half of `capacity` lines, a power of two.
  explicit Footprint(size_t capacity = 1 << 15, size_t start = 1 << 7)
      : capacity_(capacity), keys_(start, 0), sectors_(start, 0) {}
  // The number of these sectors of the line, a mask of four, that had not been touched.
  int Touch(uint64_t line, uint32_t sectors);
  void Clear();

 private:
  // Where the line is, or would be.
  size_t Locate(uint64_t line) const;

  size_t capacity_;
  std::vector<uint64_t> keys_;  // line + 1; 0: empty
  std::vector<uint8_t> sectors_;
  size_t used_ = 0;
};

// How many operations went to each address; for contention. Bounded as Footprint is.
class AddressCounts {
 public:
  void Add(uint64_t address, double count);
  double largest() const { return largest_; }
  void Clear();

 private:
  static constexpr size_t kCapacity = 1 << 12;
  std::vector<uint64_t> keys_;
  std::vector<double> counts_;
  size_t used_ = 0;
  double largest_ = 0;
};

// Latencies in cycles that timing along a warp's dependencies uses.
struct Latencies {
  float global = 650;
  float cached = 40;
  float shared = 29;
  float atomic = 700;
  float shuffle = 23;
  float barrier = 30;
};

// What the warps of a block share.
struct BlockState {
  GlobalMemory* memory = nullptr;
  Latencies latencies;
  std::vector<uint8_t> shared;
  std::span<const uint8_t> parameters;
  Footprint reads;
  Footprint writes;
  AddressCounts* global_atomics = nullptr;
  AddressCounts shared_atomics;
};

struct StackEntry {
  int32_t pc = 0;  // -1: these lanes end
  int32_t reconverge = -1;
  uint32_t mask = 0;
};

// Per carried register or operand of a comparison of a loop: values of the last iteration and what
// they changed by.
struct Progress {
  std::array<int64_t, kWarpLanes> value = {};
  std::array<int64_t, kWarpLanes> delta = {};
  int stable = 0;  // iterations for which the change was the same
};

struct LoopState {
  int64_t iterations = 0;
  uint32_t mask = 0;
  int64_t snapshot_iteration = 0;
  Counters snapshot;
  double snapshot_clock = 0;
  std::vector<Progress> carried;
  std::vector<Progress> drivers;  // two for each: left and right
};

struct DriverValues {
  std::array<int64_t, kWarpLanes> left = {};
  std::array<int64_t, kWarpLanes> right = {};
  bool is_unsigned = false;
  uint8_t comparison = 0;
  bool seen = false;
};

// One warp of a block: its registers, where it is, and what it has done so far. Instructions are
// executed for the lanes of `active`.
class Warp {
 public:
  const Kernel* kernel = nullptr;
  BlockState* block = nullptr;
  uint32_t active = 0;  // of the instruction that is executed
  std::vector<uint8_t> registers;
  std::vector<uint8_t> local;  // of all lanes, one after the other
  std::vector<float> ready;    // by slot: when it has its value, in cycles
  Counters counters;

  std::vector<StackEntry> stack;
  bool waiting = false;  // at a barrier
  int64_t steps = 0;
  double weight = 1;  // of the warps of the block, how many it stands for

  // Timing.
  double clock = 0;        // when the next instruction is issued
  double entry = 0;        // when the current basic block was entered
  double last_start = 0;   // when the last of the instructions so far had what it needed
  double start = 0;        // of the current instruction: when its sources are there
  float latency = 0;       // of the current instruction; a handler may change it
  double async_ready = 0;  // when copies that are not yet committed have arrived
  std::deque<double> async_groups;

  std::vector<LoopState> loops;
  std::vector<DriverValues> drivers;

  // As new, but for the memory that it keeps.
  void Reset() {
    counters = {};
    stack.clear();
    waiting = false;
    steps = 0;
    clock = entry = last_start = start = async_ready = 0;
    async_groups.clear();
    loops.clear();
    drivers.clear();
  }
  bool done() const { return stack.empty(); }
  const uint16_t* operands(const Instruction& i) const {
    return kernel->operands.data() + i.operands;
  }
  uint8_t* slot(uint16_t index) { return registers.data() + kernel->slots[index].offset; }
  template <class T>
  T* lanes(const Instruction& i, int operand) {
    return reinterpret_cast<T*>(slot(operands(i)[operand]));
  }
  uint32_t& mask_of(uint16_t index) { return *reinterpret_cast<LaneU32*>(slot(index)); }
  uint32_t& predicate(const Instruction& i, int operand) { return mask_of(operands(i)[operand]); }
};

template <class Function>
inline void ForLanes(uint32_t mask, Function function) {
  if (mask == 0xffffffff) {
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      function(lane);
    }
    return;
  }
  while (mask != 0) {
    function(std::countr_zero(mask));
    mask &= mask - 1;
  }
}

}  // namespace kernelcast::worker::ptx

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_PTX_WARP_H_
