#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_CHECKER_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_CHECKER_H_

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "services/worker/virtual_gpu/execute/memory.h"
#include "services/worker/virtual_gpu/program.h"

namespace kernelcast::worker::virtual_gpu {

class Warp;
struct LaunchSpec;

// In the same order as FindingKind of the domain.
enum class Fault : uint8_t {
  kSharedRace,
  kSharedOutOfBounds,
  kSharedUninitialised,
  kLocalOutOfBounds,
  kLocalUninitialised,
  kGlobalOutOfBounds,
  kGlobalUninitialised,
  kMisaligned,
  kWrongMask,
  kMissedBarrier,
  kGlobalRace = 12,  // those between are about outputs
};

struct LaunchFinding {
  Fault fault = Fault::kSharedRace;
  int32_t line = 0;
  int32_t source_line = 0;
  std::string detail;
  int64_t count = 0;
};

enum class AccessKind : uint8_t { kRead, kWrite, kAtomic, kAsyncWrite };

// Checks the memory accesses of the warps of one launch, block after block, for faults that are
// unsafe on any GPU. It reports only certain faults:
//
// - Races in shared memory between warps: two accesses of one word without a barrier of the block
//   between them, where one writes a value different from the current one. Atomics do not race with
//   each other, nor with reads, since compare-and-swap loops start with a read. Copies with
//   cp.async count when they are waited for. Lanes of one warp are assumed to run in lockstep, but
//   two lanes of one store must not write different values to one place. Single-precision numbers
//   that differ by rounding count as one value.
// - Reads of bytes that were all never written. In global memory this is checked only while neither
//   an earlier launch nor an executed block of this launch has written to the output or workspace.
// - Different values that two blocks write to one place of an output, in kernels that have nothing
// to
//   order blocks.
// - Addresses out of bounds, and misaligned ones.
//
// It sees only the executed blocks and one order of their warps. Kernels that synchronise through
// named barriers, mbarriers or volatile shared memory are not checked for races and uninitialised
// shared memory.
class Checker {
 public:
  // All arguments must outlive the checker.
  Checker(const Program& program, const Kernel& kernel, const LaunchSpec& launch,
          std::span<const BufferSpec> buffers, const GlobalMemory& memory, int64_t shared_bytes);

  void BeginBlock(const std::array<uint32_t, 3>& at);
  // Call it when all warps of the block have arrived.
  void Barrier() { ++epoch_; }
  // Call it once per executed instruction, before its accesses.
  void BeginInstruction() { ++serial_; }

  // An access by `lane`. `value` is the written value, of up to 8 bytes; report wider accesses in
  // pieces.
  void Shared(const Warp& w, const Instruction& i, int lane, uint64_t address, int bytes,
              AccessKind kind, uint64_t value = 0);
  void Local(Warp& w, const Instruction& i, int lane, uint64_t address, int bytes, AccessKind kind);
  void Global(const Warp& w, const Instruction& i, int lane, uint64_t address, int bytes,
              AccessKind kind, uint64_t value = 0);
  // Checks the alignment of a lane's whole access, including all elements.
  void Aligned(const Warp& w, const Instruction& i, int lane, uint64_t address, int bytes);
  void Mask(const Warp& w, const Instruction& i, uint32_t active);
  void ArrivesAtBarrier(const Warp& w, const Instruction& i, uint32_t active);
  void CommitCopies(const Warp& w);
  // Waits until at most `left` groups are outstanding; -1: all copies.
  void WaitForCopies(const Warp& w, int64_t left);

  // Sorted by line and kind.
  std::vector<LaunchFinding> Findings() const;
  const std::string& not_checked() const { return not_checked_; }

 private:
  // State of a few bytes of shared memory, as many as the kernel's narrowest access.
  struct Cell {
    uint32_t write_epoch = 0;
    uint32_t read_epoch = 0;
    uint32_t write_serial = 0;
    uint32_t written_in = 0;  // number of the block that wrote it last
    uint16_t writer = 0;
    uint16_t reader = 0;
    bool many_readers = false;  // read by several warps
    bool atomic = false;
    bool pending = false;  // an asynchronous copy is outstanding
    int32_t write_line = 0;
    int32_t read_line = 0;
  };
  struct Copies {
    std::vector<std::pair<uint32_t, uint16_t>> open;  // cells and threads
    std::vector<std::vector<std::pair<uint32_t, uint16_t>>> groups;
  };

  void Report(Fault fault, const Warp& w, const Instruction& i, int lane,
              const std::string& detail);
  bool Known(Fault fault, const Instruction& i);
  std::string Where(const Warp& w, int lane) const;
  std::string TextOf(int32_t line) const;
  std::string NameOf(int buffer) const;
  // The access of another thread to a cell, and its place.
  struct Other {
    const char* did = "";
    uint16_t thread = 0;
    int32_t line = 0;
  };
  // A write to an output, for races between blocks.
  void WriteOutput(const Warp& w, const Instruction& i, int lane, int region, uint64_t address,
                   int bytes, uint64_t value);
  // Reports that a lane accesses shared memory that another thread uses too.
  void Race(const Warp& w, const Instruction& i, int lane, uint64_t address, AccessKind kind,
            const Other& other);

  const Program& program_;
  const Kernel& kernel_;
  const LaunchSpec& launch_;
  const std::span<const BufferSpec> buffers_;
  const GlobalMemory& memory_;
  const int64_t shared_bytes_;
  std::vector<size_t> line_starts_;
  std::string not_checked_;
  bool follows_shared_ = true;
  int cell_bytes_ = 4;
  std::vector<Cell> cells_;
  std::vector<uint8_t> shared_;  // contents, to recognise writes that change nothing
  std::map<int, Copies> copies_;
  bool copied_ = false;         // by this block
  bool orders_blocks_ = false;  // the kernel has something that can
  // By element of outputs: the block that last changed it, and the line.
  std::unordered_map<uint64_t, std::pair<uint32_t, int32_t>> written_by_;
  std::array<uint32_t, 3> block_ = {};
  uint32_t blocks_ = 0;
  uint32_t epoch_ = 0;
  uint32_t serial_ = 0;
  std::map<std::pair<int32_t, Fault>, LaunchFinding> findings_;
};

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_CHECKER_H_
