#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_ACCESS_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_ACCESS_H_

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "services/worker/virtual_gpu/execute/checker.h"
#include "services/worker/virtual_gpu/execute/memory.h"
#include "services/worker/virtual_gpu/execute/warp.h"
#include "services/worker/virtual_gpu/program.h"

// How the accesses of a warp become requests: sectors and lines of global memory, wavefronts of the
// banks of shared memory, and what each costs.

namespace kernelcast::worker::virtual_gpu {

inline constexpr int kSectorBytes = 32;
inline constexpr int kLineBytes = 128;
inline constexpr int kBanks = 32;

// Addresses of the active lanes, in lane order.
struct Addresses {
  std::array<uint64_t, kWarpLanes> at;
  int count = 0;
};

// Reads the addresses of the active lanes from an operand and adds the instruction's offset.
Addresses Gather(Warp& w, const Instruction& i, int operand);

// Resolves generic addresses to a space. Assumes that all lanes use the same space as the first
// one, and notes if they do not.
Space Resolve(Warp& w, Space space, Addresses& addresses);

// The lines that a request touches, with their sectors. Optimised for ascending addresses.
class Lines {
 public:
  void Add(uint64_t address, int bytes) {
    const uint64_t last = address + static_cast<uint64_t>(bytes) - 1;
    Touch(address);
    if (last / kSectorBytes != address / kSectorBytes) Touch(last);
  }
  int count() const { return count_; }
  uint64_t line(int n) const { return lines_[static_cast<size_t>(n)]; }
  uint32_t sectors(int n) const { return masks_[static_cast<size_t>(n)]; }
  int all_sectors() const {
    int total = 0;
    for (int n = 0; n < count_; ++n) total += std::popcount(sectors(n));
    return total;
  }

 private:
  void Touch(uint64_t address) {
    const uint64_t line = address / kLineBytes;
    const uint32_t sector = uint32_t{1} << (address / kSectorBytes % 4);
    for (int n = count_ - 1; n >= 0; --n) {
      if (lines_[static_cast<size_t>(n)] == line) {
        masks_[static_cast<size_t>(n)] |= sector;
        return;
      }
    }
    if (count_ == static_cast<int>(lines_.size())) return;
    lines_[static_cast<size_t>(count_)] = line;
    masks_[static_cast<size_t>(count_++)] = sector;
  }
  std::array<uint64_t, 2 * kWarpLanes> lines_;
  std::array<uint32_t, 2 * kWarpLanes> masks_;
  int count_ = 0;
};

// Index of an access of that many bytes in the counters by width.
int WidthIndex(int bytes);

// Counts a read of global memory, with its lines and sectors. Returns the latency. `bypasses`:
// whether the read bypasses the L1 cache.
float CountRead(Warp& w, const Addresses& addresses, int bytes, bool bypasses, int& sectors,
                int& line_count);

// Counts a write to global memory and returns its sectors.
int CountWrite(Warp& w, const Addresses& addresses, int bytes);

// Counts an access to local memory and sets the latency of the instruction. A word of local memory
// of all lanes forms one line, so lanes that access different words access different lines.
void CountLocal(Warp& w, const Addresses& addresses, int bytes);

// Counts a request to shared memory and sets the latency of the instruction.
void CountShared(Warp& w, const Addresses& addresses, int bytes, bool load);

// Returns the number of shared memory wavefronts for one request in which lane i accesses `bytes`
// bytes (1 to 16) at addresses[i]. There are 32 banks of 4 bytes, and lanes that access the same
// word are served together. Requests of 8 bytes are served half a warp at a time, those of 16 a
// quarter.
int SharedWavefronts(std::span<const uint64_t> addresses, int bytes);

// Returns the number of wavefronts without conflicts.
int IdealWavefronts(int lanes, int bytes);

// The access of each lane at its address.
struct LaneAccess {
  Space space = Space::kGlobal;
  int bytes = 0;  // of an element
  int elements = 1;
  AccessKind kind = AccessKind::kRead;
  const uint16_t* values = nullptr;  // the first operand with a written value
};
// Reports the access to the checker, which must be present.
void CheckAccess(Warp& w, const Instruction& i, const Addresses& addresses,
                 const LaneAccess& access);

// Values in memory. Reads outside a space return 0; writes there have no effect. `bytes`: 1, 2, 4
// or 8. Inline, because they take most of the time of an access.
inline uint8_t* SharedAt(Warp& w, uint64_t address, int bytes) {
  address &= ~(static_cast<uint64_t>(bytes) - 1);
  std::vector<uint8_t>& shared = w.block->shared;
  if (address >= shared.size() || shared.size() - address < static_cast<uint64_t>(bytes)) {
    return nullptr;
  }
  return shared.data() + address;
}

inline uint64_t ReadBytes(const uint8_t* from, int bytes) {
  uint64_t value = 0;
  if (from != nullptr) std::memcpy(&value, from, static_cast<size_t>(bytes));
  return value;
}

inline uint8_t* LocalAt(Warp& w, int lane, uint64_t address, int bytes) {
  const auto each = static_cast<uint64_t>(w.kernel->local_bytes);
  address &= ~(static_cast<uint64_t>(bytes) - 1);
  if (address >= each || each - address < static_cast<uint64_t>(bytes)) return nullptr;
  return w.local.data() + static_cast<uint64_t>(lane) * each + address;
}

inline uint8_t* ArgumentAt(Warp& w, int lane, uint64_t address, int bytes) {
  const auto each = static_cast<uint64_t>(w.kernel->argument_bytes);
  address &= ~(static_cast<uint64_t>(bytes) - 1);
  if (address >= each || each - address < static_cast<uint64_t>(bytes)) return nullptr;
  return w.arguments.data() + static_cast<uint64_t>(lane) * each + address;
}

inline uint64_t ReadAt(Warp& w, Space space, int lane, uint64_t address, int bytes) {
  switch (space) {
    case Space::kShared: return ReadBytes(SharedAt(w, address, bytes), bytes);
    case Space::kLocal: return ReadBytes(LocalAt(w, lane, address, bytes), bytes);
    case Space::kArgument: return ReadBytes(ArgumentAt(w, lane, address, bytes), bytes);
    case Space::kParameter: {
      const auto& parameters = w.block->parameters;
      address &= ~(static_cast<uint64_t>(bytes) - 1);
      const bool ok = address < parameters.size() &&
                      parameters.size() - address >= static_cast<uint64_t>(bytes);
      return ok ? ReadBytes(parameters.data() + address, bytes) : 0;
    }
    default: return w.block->memory->Read(address, bytes);
  }
}

inline void WriteAt(Warp& w, Space space, int lane, uint64_t address, int bytes, uint64_t value) {
  uint8_t* to = nullptr;
  switch (space) {
    case Space::kShared: to = SharedAt(w, address, bytes); break;
    case Space::kLocal: to = LocalAt(w, lane, address, bytes); break;
    case Space::kArgument: to = ArgumentAt(w, lane, address, bytes); break;
    case Space::kParameter: return;
    default: w.block->memory->Write(address, bytes, value); return;
  }
  if (to != nullptr) std::memcpy(to, &value, static_cast<size_t>(bytes));
}

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_EXECUTE_ACCESS_H_
