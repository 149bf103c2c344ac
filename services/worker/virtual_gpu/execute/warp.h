#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_WARP_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_WARP_H_

#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "services/worker/virtual_gpu/execute/checker.h"
#include "services/worker/virtual_gpu/execute/counters.h"
#include "services/worker/virtual_gpu/execute/footprint.h"
#include "services/worker/virtual_gpu/execute/memory.h"
#include "services/worker/virtual_gpu/program.h"

namespace kernelcast::worker::virtual_gpu {

// Registers are accessed with the type of each instruction, so code that does this is compiled with
// -fno-strict-aliasing.
using LaneU32 = uint32_t;
using LaneS32 = int32_t;
using LaneU64 = uint64_t;
using LaneF32 = float;
using LaneF64 = double;

// Latencies in cycles, used to time a warp along its dependencies. Measured by the kernels of
// tests/bench/gpu/constants on an H200 (data/measured/nvidia-h200/mechanisms.jsonl).
struct Latencies {
  float global = 600;  // one sector
  // More than one sector: the slowest counts.
  float global_sectors = 800;
  float l2 = 270;
  float cached = 42;
  float shared = 23;
  float atomic = 700;
  float shuffle = 23;
  float branch = 5;  // a conditional one; nothing is fetched past it
  // A barrier, and what each warp that takes part adds to it.
  float barrier = 10;
  float barrier_warp = 1.9F;
};

// Words of global memory that the sampled blocks of a launch wrote with atomics or with stores that
// other blocks see at once (volatile, release, relaxed). Bounded.
class PublishedWords {
 public:
  void Clear() { writers_.clear(); }
  void Write(uint64_t address, int block) {
    if (writers_.size() < kMost) writers_[address / 4] = block;
  }
  // Whether a block other than `block` wrote the word last.
  bool OfOther(uint64_t address, int block) const {
    const auto found = writers_.find(address / 4);
    return found != writers_.end() && found->second != block;
  }

 private:
  static constexpr size_t kMost = 4096;
  std::unordered_map<uint64_t, int> writers_;
};

// State shared by the warps of a block.
struct BlockState {
  GlobalMemory* memory = nullptr;
  Latencies latencies;
  std::vector<uint8_t> shared;
  std::span<const uint8_t> parameters;
  Footprint reads;
  Footprint writes;
  AddressCounts* global_atomics = nullptr;
  AddressCounts* global_atomic_ns = nullptr;
  PublishedWords* published = nullptr;
  int number = 0;  // index among the sampled blocks
  bool publishes = false;
  Waits waits = Waits::kNever;
  size_t l1_lines = 1024;  // capacity of the L1 cache for this block
  double warps = 1;
  bool local_in_l1 = true;  // the L1 cache can hold the local memory
  AddressCounts shared_atomics;
  Checker* checker = nullptr;  // null: accesses are not checked
  // Why values may differ from a GPU's; null: no reason has occurred.
  const char* approximated = nullptr;
  // Number of threads that arrived at the current barrier, by whether the predicate of its
  // reduction holds.
  double holds = 0;
  double fails = 0;
};

// How the execution of a warp or a block ended: at its end, at the limit of steps, or in a loop
// that waits for something that never happens.
enum class Outcome : uint8_t { kDone, kSteps, kEndless };

struct StackEntry {
  int32_t pc = 0;  // -1: these lanes have ended
  int32_t reconverge = -1;
  uint32_t mask = 0;
};

// For a carried register or an operand of a loop's comparison: the values in the last iteration and
// their change.
struct Progress {
  std::array<int64_t, kWarpLanes> value = {};
  std::array<int64_t, kWarpLanes> delta = {};
  int stable = 0;  // number of iterations with the same change
};

struct LoopState {
  int64_t iterations = 0;
  uint32_t mask = 0;
  int64_t snapshot_iteration = 0;
  Counters snapshot;
  double snapshot_clock = 0;
  std::vector<Progress> carried;
  std::vector<Progress> drivers;  // two per driver: left and right
};

struct DriverValues {
  std::array<int64_t, kWarpLanes> left = {};
  std::array<int64_t, kWarpLanes> right = {};
  bool is_unsigned = false;
  uint8_t comparison = 0;
  bool seen = false;
};

// One warp of a block: its registers, position and counts. Instructions are executed for the lanes
// in `active`.
class Warp {
 public:
  const Kernel* kernel = nullptr;
  BlockState* block = nullptr;
  uint32_t active = 0;  // lanes of the current instruction
  std::vector<uint8_t> registers;
  std::vector<uint8_t> local;          // of all lanes, one after the other
  std::vector<uint8_t> arguments;      // of device functions, in the same layout
  std::vector<uint8_t> local_written;  // used and sized by the checker
  int number = 0;                      // index in the block
  int holds = -1;                      // index of the warp whose constants the registers hold
  bool begun = false;
  std::vector<float> ready;  // by slot: when the value is available, in cycles
  Counters counters;

  std::vector<StackEntry> stack;
  bool waiting = false;  // at a barrier
  uint64_t clock_reads = 0;
  // Destination of the barrier's result, if it has one, and its lanes.
  const Instruction* reduction = nullptr;
  uint32_t reduced = 0;
  int64_t steps = 0;
  double weight = 1;  // number of warps of the block that it represents

  // Timing, in cycles.
  double clock = 0;  // when the next instruction is issued
  double entry = 0;  // when the current basic block was entered
  // Predicated instructions before this one wait for their predicate.
  int32_t predicated_end = 0;
  double predicate_ready = 0;
  double last_start = 0;   // when the last instruction so far had its sources
  double start = 0;        // of the current instruction: when its sources are available
  float latency = 0;       // of the current instruction; a handler may change it
  double async_ready = 0;  // when uncommitted copies have arrived
  std::deque<double> async_groups;

  std::vector<LoopState> loops;
  std::vector<DriverValues> drivers;

  // Resets everything except registers and allocated memory.
  void Reset() {
    counters = {};
    stack.clear();
    begun = false;
    waiting = false;
    clock_reads = 0;
    reduction = nullptr;
    steps = 0;
    clock = entry = last_start = start = async_ready = predicate_ready = 0;
    predicated_end = 0;
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

// Reads and writes one lane of a register of words or longs.
inline uint64_t ReadLane(Warp& w, uint16_t slot, int lane) {
  return w.kernel->slots[slot].kind == SlotClass::kLong
             ? reinterpret_cast<const LaneU64*>(w.slot(slot))[lane]
             : reinterpret_cast<const LaneU32*>(w.slot(slot))[lane];
}
inline void WriteLane(Warp& w, uint16_t slot, int lane, uint64_t value) {
  if (w.kernel->slots[slot].kind == SlotClass::kLong) {
    reinterpret_cast<LaneU64*>(w.slot(slot))[lane] = value;
  } else {
    reinterpret_cast<LaneU32*>(w.slot(slot))[lane] = static_cast<uint32_t>(value);
  }
}

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_WARP_H_
