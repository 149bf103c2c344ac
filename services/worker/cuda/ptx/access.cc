#include "services/worker/cuda/ptx/access.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include "services/worker/cuda/ptx/warp.h"

namespace kernelcast::worker::ptx {
namespace {

constexpr int kSectorBytes = 32;
constexpr int kLineBytes = 128;
constexpr int kBanks = 32;

// Addresses of the active lanes, in lane order.
struct Addresses {
  std::array<uint64_t, kWarpLanes> at;
  int count = 0;
};

Addresses Gather(Warp& w, const Instruction& i, int operand) {
  Addresses addresses;
  const uint16_t slot = w.operands(i)[operand];
  const auto offset = static_cast<uint64_t>(i.immediate);
  if (w.kernel->slots[slot].kind == SlotClass::kLong) {
    const auto* lanes = reinterpret_cast<const LaneU64*>(w.slot(slot));
    if (w.active == 0xffffffff) {
      for (size_t l = 0; l < kWarpLanes; ++l) addresses.at[l] = lanes[l] + offset;
      addresses.count = kWarpLanes;
      return addresses;
    }
    ForLanes(w.active, [&](int l) {
      addresses.at[static_cast<size_t>(addresses.count++)] = lanes[l] + offset;
    });
  } else {
    const auto* lanes = reinterpret_cast<const LaneU32*>(w.slot(slot));
    ForLanes(w.active, [&](int l) {
      addresses.at[static_cast<size_t>(addresses.count++)] =
          static_cast<uint32_t>(lanes[l] + static_cast<uint32_t>(offset));
    });
  }
  return addresses;
}

// Resolves generic addresses to a space. Assumes that all lanes use the same space as the first
// one.
Space Resolve(Space space, Addresses& addresses) {
  if (space != Space::kGeneric || addresses.count == 0) {
    return space == Space::kGeneric ? Space::kGlobal : space;
  }
  const uint64_t first = addresses.at[0];
  const auto within = [&](uint64_t window) {
    return first >= window && first - window < kWindowBytes;
  };
  for (const auto& [window, is] :
       {std::pair(kSharedWindow, Space::kShared), std::pair(kLocalWindow, Space::kLocal)}) {
    if (!within(window)) continue;
    for (int l = 0; l < addresses.count; ++l) addresses.at[static_cast<size_t>(l)] -= window;
    return is;
  }
  return Space::kGlobal;
}

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

int Width(int bytes) {
  return bytes <= 1 ? 0 : bytes <= 2 ? 1 : bytes <= 4 ? 2 : bytes <= 8 ? 3 : 4;
}

// Lines re-read within 1/kRecentShare of the L1 capacity are not counted again.
constexpr double kRecentShare = 16;

// Returns the latency. `bypasses`: whether the read bypasses the L1 cache.
float CountRead(Warp& w, const Addresses& addresses, int bytes, bool bypasses, int& sectors,
                int& line_count) {
  Lines lines;
  for (int l = 0; l < addresses.count; ++l) lines.Add(addresses.at[static_cast<size_t>(l)], bytes);
  sectors = lines.all_sectors();
  line_count = lines.count();
  const BlockState& block = *w.block;
  const Latencies& latencies = block.latencies;
  float latency = bypasses ? latencies.l2 : latencies.cached;
  Counters& c = w.counters;
  for (int n = 0; n < lines.count(); ++n) {
    const int region = w.block->memory->RegionOf(
        lines.line(n) * kLineBytes + static_cast<uint64_t>(kSectorBytes) *
                                         static_cast<uint64_t>(std::countr_zero(lines.sectors(n))));
    const int count = std::popcount(lines.sectors(n));
    if (region < 0) {
      c.stray_sectors += count;
      continue;
    }
    const auto at = static_cast<size_t>(region);
    const auto now = static_cast<float>(c.lines_read);
    const Footprint::Touched touched = w.block->reads.Touch(lines.line(n), lines.sectors(n), now);
    c.read_sectors[at] += count;
    c.read_new[at] += touched.fresh;
    c.read_halves[at] += touched.halves;
    if (touched.fresh > 0) {
      c.lines_read += touched.fresh / 4.0;
      latency = std::max(latency, latencies.global);
      continue;
    }
    // Estimated number of lines that the block has read since then. A warp counts only its own
    // lines, because loops are inferred per warp.
    const double distance = (now - touched.since) * block.warps;
    const auto held = static_cast<double>(block.l1_lines);
    if (distance > held / kRecentShare) c.lines_read += count / 4.0;
    if (distance > held) latency = std::max(latency, latencies.l2);
  }
  return latency;
}

int CountWrite(Warp& w, const Addresses& addresses, int bytes) {
  Lines lines;
  for (int l = 0; l < addresses.count; ++l) lines.Add(addresses.at[static_cast<size_t>(l)], bytes);
  for (int n = 0; n < lines.count(); ++n) {
    const int region = w.block->memory->RegionOf(
        lines.line(n) * kLineBytes + static_cast<uint64_t>(kSectorBytes) *
                                         static_cast<uint64_t>(std::countr_zero(lines.sectors(n))));
    const int count = std::popcount(lines.sectors(n));
    if (region < 0) {
      w.counters.stray_sectors += count;
      continue;
    }
    const auto at = static_cast<size_t>(region);
    const Footprint::Touched touched = w.block->writes.Touch(lines.line(n), lines.sectors(n));
    w.counters.write_sectors[at] += count;
    w.counters.write_new[at] += touched.fresh;
    w.counters.write_halves[at] += touched.halves;
    // Requests almost always go to one region.
    if (n == 0) w.counters.write_bytes[at] += addresses.count * bytes;
  }
  w.counters.global_lines += lines.count();
  return lines.all_sectors();
}

// A word of local memory of all lanes forms one line, so lanes that access different words access
// different lines.
void CountLocal(Warp& w, const Addresses& addresses, int bytes) {
  Lines lines;
  int n = 0;
  ForLanes(w.active, [&](int l) {
    const uint64_t address = addresses.at[static_cast<size_t>(n++)];
    for (int at = 0; at < std::max(bytes, 4); at += 4) {
      lines.Add(
          (address / 4 + static_cast<uint64_t>(at / 4)) * kLineBytes + static_cast<uint64_t>(4 * l),
          4);
    }
  });
  w.counters.local_sectors += lines.all_sectors();
  w.counters.local_lines += lines.count();
  w.latency = w.block->local_in_l1 ? w.block->latencies.cached : w.block->latencies.l2;
}

uint8_t* SharedAt(Warp& w, uint64_t address, int bytes) {
  address &= ~(static_cast<uint64_t>(bytes) - 1);
  std::vector<uint8_t>& shared = w.block->shared;
  if (address >= shared.size() || shared.size() - address < static_cast<uint64_t>(bytes)) {
    return nullptr;
  }
  return shared.data() + address;
}

uint64_t ReadBytes(const uint8_t* from, int bytes) {
  uint64_t value = 0;
  if (from != nullptr) std::memcpy(&value, from, static_cast<size_t>(bytes));
  return value;
}

uint8_t* LocalAt(Warp& w, int lane, uint64_t address, int bytes) {
  const auto each = static_cast<uint64_t>(w.kernel->local_bytes);
  address &= ~(static_cast<uint64_t>(bytes) - 1);
  if (address >= each || each - address < static_cast<uint64_t>(bytes)) return nullptr;
  return w.local.data() + static_cast<uint64_t>(lane) * each + address;
}

uint8_t* ArgumentAt(Warp& w, int lane, uint64_t address, int bytes) {
  const auto each = static_cast<uint64_t>(w.kernel->argument_bytes);
  address &= ~(static_cast<uint64_t>(bytes) - 1);
  if (address >= each || each - address < static_cast<uint64_t>(bytes)) return nullptr;
  return w.arguments.data() + static_cast<uint64_t>(lane) * each + address;
}

uint64_t ReadAt(Warp& w, Space space, int lane, uint64_t address, int bytes) {
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

void WriteAt(Warp& w, Space space, int lane, uint64_t address, int bytes, uint64_t value) {
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

uint64_t GetLane(Warp& w, uint16_t slot, int lane) {
  return w.kernel->slots[slot].kind == SlotClass::kLong
             ? reinterpret_cast<const LaneU64*>(w.slot(slot))[lane]
             : reinterpret_cast<const LaneU32*>(w.slot(slot))[lane];
}
void SetLane(Warp& w, uint16_t slot, int lane, uint64_t value) {
  if (w.kernel->slots[slot].kind == SlotClass::kLong) {
    reinterpret_cast<LaneU64*>(w.slot(slot))[lane] = value;
  } else {
    reinterpret_cast<LaneU32*>(w.slot(slot))[lane] = static_cast<uint32_t>(value);
  }
}

int Ideal(int lanes, int bytes) { return std::max(1, lanes * bytes / (4 * kBanks)); }

void CountShared(Warp& w, const Instruction& i, const Addresses& addresses, int bytes, bool load) {
  const int wavefronts =
      SharedWavefronts({addresses.at.data(), static_cast<size_t>(addresses.count)}, bytes);
  const int ideal = Ideal(addresses.count, bytes);
  Counters& c = w.counters;
  c.shared_bytes += addresses.count * bytes;
  if (load) {
    c.shared_load_requests += 1;
    c.shared_load_wavefronts += wavefronts;
    c.shared_load_ideal += ideal;
  } else {
    c.shared_store_requests += 1;
    c.shared_store_wavefronts += wavefronts;
    c.shared_store_ideal += ideal;
  }
  w.counters.kind[static_cast<size_t>(load ? Kind::kLoadShared : Kind::kStoreShared)] += 1;
  w.latency = w.block->latencies.shared + static_cast<float>(wavefronts - 1);
  static_cast<void>(i);
}

// Reports the access to the checker, if there is one. `to` is the first operand with a written
// value.
void Check(Warp& w, const Instruction& i, const Addresses& addresses, Space space, int bytes,
           int elements, AccessKind kind, const uint16_t* values = nullptr) {
  Checker& checker = *w.block->checker;
  checker.BeginInstruction();
  int n = 0;
  ForLanes(w.active, [&](int l) {
    const uint64_t first = addresses.at[static_cast<size_t>(n++)];
    if (space != Space::kParameter && space != Space::kConstant && space != Space::kArgument) {
      checker.Aligned(w, i, l, first, bytes * elements);
    }
    for (int element = 0; element < elements; ++element) {
      const uint64_t at = first + static_cast<uint64_t>(element * bytes);
      switch (space) {
        case Space::kShared:
          checker.Shared(w, i, l, at, bytes, kind,
                         values == nullptr ? 0 : GetLane(w, values[element], l));
          break;
        case Space::kLocal: checker.Local(w, i, l, at, bytes, kind); break;
        case Space::kGlobal: checker.Global(w, i, l, at, bytes, kind); break;
        default: break;
      }
    }
  });
}

// Fast path for most loads from shared memory.
void LoadSharedWords(Warp& w, const Instruction& i, const Addresses& addresses) {
  const std::vector<uint8_t>& shared = w.block->shared;
  const uint64_t size = shared.size();
  for (int element = 0; element < i.lanes; ++element) {
    const uint16_t slot = w.operands(i)[element];
    if (w.kernel->slots[slot].kind == SlotClass::kLong) {
      int n = 0;
      ForLanes(w.active, [&](int l) {
        const uint64_t address =
            addresses.at[static_cast<size_t>(n++)] + static_cast<uint64_t>(4 * element);
        SetLane(w, slot, l, ReadAt(w, Space::kShared, l, address, 4));
      });
      continue;
    }
    auto* to = reinterpret_cast<LaneU32*>(w.slot(slot));
    int n = 0;
    ForLanes(w.active, [&](int l) {
      const uint64_t address =
          (addresses.at[static_cast<size_t>(n++)] + static_cast<uint64_t>(4 * element)) &
          ~uint64_t{3};
      uint32_t value = 0;
      if (address < size && size - address >= 4) std::memcpy(&value, shared.data() + address, 4);
      to[l] = value;
    });
  }
}

// Records words that other blocks of the launch may read or wait for.
void Publish(Warp& w, const Addresses& addresses) {
  BlockState& block = *w.block;
  if (block.published == nullptr) return;
  block.publishes = true;
  for (int l = 0; l < addresses.count; ++l) {
    block.published->Write(addresses.at[static_cast<size_t>(l)], block.number);
  }
}
void LookForPublished(Warp& w, const Addresses& addresses) {
  BlockState& block = *w.block;
  if (block.published == nullptr || block.waits != Waits::kNever) return;
  for (int l = 0; l < addresses.count; ++l) {
    if (!block.published->OfOther(addresses.at[static_cast<size_t>(l)], block.number)) continue;
    block.waits = block.publishes ? Waits::kAfterPublishing : Waits::kBeforePublishing;
    return;
  }
}

// detail: whether the load bypasses the L1 cache.
void Load(Warp& w, const Instruction& i) {
  Addresses addresses = Gather(w, i, i.writes);
  const Space space = Resolve(i.space, addresses);
  const int bytes = i.bytes * i.lanes;
  switch (space) {
    case Space::kShared: CountShared(w, i, addresses, bytes, true); break;
    case Space::kLocal:
      w.counters.kind[static_cast<size_t>(Kind::kLoadLocal)] += 1;
      CountLocal(w, addresses, bytes);
      break;
    case Space::kArgument:
    case Space::kParameter:
      w.counters.kind[static_cast<size_t>(Kind::kLoadParameter)] += 1;
      w.latency = 1;
      break;
    case Space::kConstant:
      w.counters.kind[static_cast<size_t>(Kind::kLoadParameter)] += 1;
      w.latency = 30;
      break;
    default: {
      int sectors = 0;
      int lines = 0;
      w.latency = CountRead(w, addresses, bytes, i.detail != 0, sectors, lines);
      if (i.detail != 0) LookForPublished(w, addresses);
      const auto width = static_cast<size_t>(Width(bytes));
      Counters& c = w.counters;
      c.kind[static_cast<size_t>(Kind::kLoadGlobal)] += 1;
      c.load_requests[width] += 1;
      c.load_sectors[width] += sectors;
      c.global_lines += lines;
      c.load_bytes += addresses.count * bytes;
      c.loads += 1;
      c.load_cycles += w.latency;
      c.load_byte_cycles += static_cast<double>(w.latency) * sectors * kSectorBytes;
    }
  }
  const uint16_t* operands = w.operands(i);
  int n = 0;
  if (w.block->checker != nullptr) {
    Check(w, i, addresses, space, i.bytes, i.lanes, AccessKind::kRead);
  }
  if (space == Space::kShared && i.bytes == 4) {
    LoadSharedWords(w, i, addresses);
    return;
  }
  ForLanes(w.active, [&](int l) {
    const uint64_t address = addresses.at[static_cast<size_t>(n++)];
    for (int element = 0; element < i.lanes; ++element) {
      uint64_t value =
          ReadAt(w, space, l, address + static_cast<uint64_t>(element * i.bytes), i.bytes);
      if (i.code != 0) {  // signed
        const int unused = 64 - 8 * i.bytes;
        value = static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
        if (i.bytes == 2 && i.code == 2) value &= 0xffff;
      }
      SetLane(w, operands[element], l, value);
    }
  });
}

// detail: whether other blocks see the store at once.
void Store(Warp& w, const Instruction& i) {
  Addresses addresses = Gather(w, i, 0);
  const Space space = Resolve(i.space, addresses);
  const int bytes = i.bytes * i.lanes;
  switch (space) {
    case Space::kShared: CountShared(w, i, addresses, bytes, false); break;
    case Space::kLocal:
      w.counters.kind[static_cast<size_t>(Kind::kStoreLocal)] += 1;
      CountLocal(w, addresses, bytes);
      break;
    case Space::kArgument:
    case Space::kParameter: break;
    default: {
      const auto width = static_cast<size_t>(Width(bytes));
      w.counters.kind[static_cast<size_t>(Kind::kStoreGlobal)] += 1;
      w.counters.store_requests[width] += 1;
      w.counters.store_sectors[width] += CountWrite(w, addresses, bytes);
      w.counters.store_bytes += addresses.count * bytes;
      if (i.detail != 0) Publish(w, addresses);
    }
  }
  const uint16_t* operands = w.operands(i) + 1;
  int n = 0;
  if (w.block->checker != nullptr) {
    Check(w, i, addresses, space, i.bytes, i.lanes, AccessKind::kWrite, operands);
  }
  ForLanes(w.active, [&](int l) {
    const uint64_t address = addresses.at[static_cast<size_t>(n++)];
    for (int element = 0; element < i.lanes; ++element) {
      WriteAt(w, space, l, address + static_cast<uint64_t>(element * i.bytes), i.bytes,
              GetLane(w, operands[element], l));
    }
  });
}

enum AtomicOperation : uint8_t {
  kAdd,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kExchange,
  kSwap,
  kIncrement,
  kDecrement,
};
enum AtomicType : uint8_t { kUnsigned, kSigned, kFloat, kDouble, kHalves, kBrains };

uint64_t Apply(const Instruction& i, uint64_t old, uint64_t b, uint64_t c) {
  const auto type = static_cast<AtomicType>(i.detail);
  const uint64_t keep = i.bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * i.bytes)) - 1;
  const int unused = 64 - 8 * i.bytes;
  const auto sign = [&](uint64_t value) { return static_cast<int64_t>(value << unused) >> unused; };
  switch (static_cast<AtomicOperation>(i.code)) {
    case kAdd:
      switch (type) {
        case kFloat:
          return std::bit_cast<uint32_t>(std::bit_cast<float>(static_cast<uint32_t>(old)) +
                                         std::bit_cast<float>(static_cast<uint32_t>(b)));
        case kDouble:
          return std::bit_cast<uint64_t>(std::bit_cast<double>(old) + std::bit_cast<double>(b));
        case kHalves:
        case kBrains: return old;  // packed sums never affect control flow
        default: return (old + b) & keep;
      }
    case kMin:
      return type == kSigned ? (sign(old) < sign(b) ? old : b) : std::min(old & keep, b & keep);
    case kMax:
      return type == kSigned ? (sign(old) > sign(b) ? old : b) : std::max(old & keep, b & keep);
    case kAnd: return old & b;
    case kOr: return old | b;
    case kXor: return old ^ b;
    case kExchange: return b;
    case kSwap: return (old & keep) == (b & keep) ? c : old;
    case kIncrement: return (old & keep) >= (b & keep) ? 0 : old + 1;
    case kDecrement: return (old & keep) == 0 || (old & keep) > (b & keep) ? b : old - 1;
  }
  return old;
}

bool IsReal(const Instruction& i) { return i.detail >= kFloat; }

// How often the sectors of a line are visited: once for each lane at the most contended word.
struct Passes {
  int sectors = 0;
  int passes = 0;
};
Passes PassesOf(const Addresses& addresses, uint64_t line) {
  std::array<uint64_t, kWarpLanes> own;
  size_t count = 0;
  for (int l = 0; l < addresses.count; ++l) {
    const uint64_t at = addresses.at[static_cast<size_t>(l)];
    if (at / kLineBytes == line) own[count++] = at;
  }
  std::sort(own.begin(), own.begin() + static_cast<ptrdiff_t>(count));
  Passes passes;
  int deepest = 0;
  int depth = 0;
  for (size_t k = 0; k < count; ++k) {
    const bool same_sector = k > 0 && own[k] / kSectorBytes == own[k - 1] / kSectorBytes;
    if (!same_sector) {
      passes.passes += deepest;
      ++passes.sectors;
      deepest = 0;
    }
    depth = same_sector && own[k] == own[k - 1] ? depth + 1 : 1;
    deepest = std::max(deepest, depth);
  }
  passes.passes += deepest;
  return passes;
}

// Time in ns that one request keeps a line of the L2 cache busy, measured on an H200 by the kernels
// atomic_* of tests/bench/gpu/constants. A request for one line is completed in one visit; in a
// request for many lines each line takes longer.
double AtomicNs(const Passes& passes, bool one_line, bool real) {
  constexpr double kLeast = 2.4;
  if (one_line) {
    return std::max(kLeast, real ? 0.61 * passes.sectors + 1.76 * (passes.passes - passes.sectors)
                                 : 0.72 * passes.passes);
  }
  return passes.passes <= 4 ? 3.05 * passes.passes : 12.2 + 1.3 * (passes.passes - 4);
}

// Floating-point sums in shared memory are compare-and-swap loops: all lanes that share a word try,
// and one succeeds per iteration.
double SwapLoopCycles(int depth) { return 12.0 * depth + 0.94 * depth * depth; }

void Atomic(Warp& w, const Instruction& i) {
  Addresses addresses = Gather(w, i, i.writes);
  const Space space = Resolve(i.space, addresses);
  const uint16_t* operands = w.operands(i);
  Counters& c = w.counters;
  // Number of lanes that share the most contended address.
  int depth = 0;
  for (int l = 0; l < addresses.count; ++l) {
    int same = 0;
    for (int k = 0; k < addresses.count; ++k) {
      same += addresses.at[static_cast<size_t>(k)] == addresses.at[static_cast<size_t>(l)] ? 1 : 0;
    }
    depth = std::max(depth, same);
  }
  if (space == Space::kShared) {
    c.kind[static_cast<size_t>(Kind::kAtomicShared)] += 1;
    c.shared_atomics += addresses.count;
    c.shared_atomic_requests += 1;
    c.shared_atomic_depth += depth;
    const int wavefronts =
        SharedWavefronts({addresses.at.data(), static_cast<size_t>(addresses.count)}, i.bytes);
    // Increments by one are combined for all lanes at a word.
    bool counts_up = i.code == kAdd && !IsReal(i) && i.result_unused && i.bytes == 4;
    ForLanes(w.active,
             [&](int l) { counts_up = counts_up && GetLane(w, operands[i.writes + 1], l) == 1; });
    const int serial = counts_up ? wavefronts : std::max(wavefronts, depth);
    c.shared_atomic_wavefronts += serial;
    c.shared_atomic_cycles += IsReal(i) && i.code == kAdd ? SwapLoopCycles(depth) : 2.0 * serial;
    for (int l = 0; l < addresses.count; ++l) {
      w.block->shared_atomics.Add(addresses.at[static_cast<size_t>(l)], w.weight);
    }
    w.latency = w.block->latencies.shared + 20.0F * static_cast<float>(depth);
  } else {
    c.kind[static_cast<size_t>(Kind::kAtomicGlobal)] += 1;
    c.global_atomics += addresses.count;
    c.global_atomic_requests += 1;
    c.global_atomic_depth += depth;
    c.global_atomic_sectors += CountWrite(w, addresses, i.bytes);
    if (w.block->global_atomics != nullptr) {
      Lines lines;
      for (int l = 0; l < addresses.count; ++l) {
        lines.Add(addresses.at[static_cast<size_t>(l)], i.bytes);
      }
      for (int n = 0; n < lines.count(); ++n) {
        w.block->global_atomics->Add(lines.line(n), w.weight);
        Passes passes = PassesOf(addresses, lines.line(n));
        // Integer sums of a whole warp at one address are combined first.
        if (i.uniform_address && i.result_unused && i.code == kAdd && !IsReal(i))
          passes.passes = passes.sectors;
        w.block->global_atomic_ns->Add(lines.line(n),
                                       w.weight * AtomicNs(passes, lines.count() == 1, IsReal(i)));
      }
    }
    w.latency = w.block->latencies.atomic;
  }
  const int first = i.writes + 1;
  int n = 0;
  if (w.block->checker != nullptr) {
    Check(w, i, addresses, space, i.bytes, 1, AccessKind::kAtomic);
  }
  ForLanes(w.active, [&](int l) {
    const uint64_t address = addresses.at[static_cast<size_t>(n++)];
    const uint64_t old = ReadAt(w, space, l, address, i.bytes);
    const uint64_t b = GetLane(w, operands[first], l);
    const uint64_t third = i.reads > 2 ? GetLane(w, operands[first + 1], l) : 0;
    WriteAt(w, space, l, address, i.bytes, Apply(i, old, b, third));
    if (i.writes > 0) SetLane(w, operands[0], l, old);
  });
}

void CheckCopy(Warp& w, const Instruction& i, const Addresses& to, const Addresses& from) {
  Checker& checker = *w.block->checker;
  checker.BeginInstruction();
  int n = 0;
  ForLanes(w.active, [&](int l) {
    const auto at = static_cast<size_t>(n++);
    // Fewer bytes may be read than written.
    const auto source =
        i.reads > 2 ? GetLane(w, w.operands(i)[2], l) : static_cast<uint64_t>(i.bytes);
    checker.Aligned(w, i, l, to.at[at], i.bytes);
    checker.Aligned(w, i, l, from.at[at], i.bytes);
    if (source > 0) {
      checker.Global(w, i, l, from.at[at], static_cast<int>(std::min<uint64_t>(source, i.bytes)),
                     AccessKind::kRead);
    }
    for (int piece = 0; piece < i.bytes; piece += 4) {
      checker.Shared(w, i, l, to.at[at] + static_cast<uint64_t>(piece), 4, AccessKind::kAsyncWrite);
    }
  });
}

// Copies from global to shared memory. i.immediate is the offset of the first address, i.flops that
// of the second.
void AsyncCopy(Warp& w, const Instruction& i) {
  Addresses to = Gather(w, i, 0);
  Instruction from_instruction = i;
  from_instruction.immediate = static_cast<int64_t>(i.flops);
  Addresses from = Gather(w, from_instruction, 1);
  if (i.space == Space::kGeneric) Resolve(Space::kGeneric, to);
  int bytes = i.bytes;
  int sectors = 0;
  int lines = 0;
  w.latency = CountRead(w, from, bytes, i.detail != 0, sectors, lines);
  Counters& c = w.counters;
  c.kind[static_cast<size_t>(Kind::kAsyncCopy)] += 1;
  c.async_copies += 1;
  c.async_bytes += from.count * bytes;
  c.async_sectors += sectors;
  c.global_lines += lines;
  const int wavefronts = SharedWavefronts({to.at.data(), static_cast<size_t>(to.count)}, bytes);
  c.shared_store_wavefronts += wavefronts;
  c.shared_store_ideal += Ideal(to.count, bytes);
  c.shared_bytes += to.count * bytes;
  c.loads += 1;
  c.load_cycles += w.latency;
  c.load_byte_cycles += static_cast<double>(w.latency) * sectors * kSectorBytes;
  w.async_ready = std::max(w.async_ready, w.start + w.latency);
  if (w.block->checker != nullptr) CheckCopy(w, i, to, from);
  int n = 0;
  ForLanes(w.active, [&](int l) {
    const auto at = static_cast<size_t>(n++);
    const auto source =
        i.reads > 2 ? GetLane(w, w.operands(i)[2], l) : static_cast<uint64_t>(bytes);
    for (int piece = 0; piece < bytes; piece += 4) {
      const uint64_t value =
          static_cast<uint64_t>(piece) < source
              ? w.block->memory->Read(from.at[at] + static_cast<uint64_t>(piece), 4)
              : 0;
      WriteAt(w, Space::kShared, l, to.at[at] + static_cast<uint64_t>(piece), 4, value);
    }
  });
}

void CommitAsync(Warp& w, const Instruction&) {
  if (w.block->checker != nullptr) w.block->checker->CommitCopies(w);
  w.async_groups.push_back(w.async_ready);
  if (w.async_groups.size() > 64) w.async_groups.pop_front();
}

// Waits until at most i.immediate groups are outstanding; -1: all copies.
void WaitAsync(Warp& w, const Instruction& i) {
  if (w.block->checker != nullptr) w.block->checker->WaitForCopies(w, i.immediate);
  double until = i.immediate < 0 ? w.async_ready : 0;
  while (static_cast<int64_t>(w.async_groups.size()) > std::max<int64_t>(i.immediate, 0)) {
    until = std::max(until, w.async_groups.front());
    w.async_groups.pop_front();
  }
  w.clock = std::max(w.clock, until);
}

void MatrixLoad(Warp& w, const Instruction& i) {
  const bool store = i.code != 0;
  Addresses addresses = Gather(w, i, i.writes);
  const Space space = Resolve(i.space, addresses);
  // Each matrix is eight rows of 16 bytes, whose addresses come from successive lanes.
  int wavefronts = 0;
  const int matrices = i.lanes;
  for (int m = 0; m < matrices; ++m) {
    const int first = 8 * m;
    const int count = std::clamp(addresses.count - first, 0, 8);
    if (count > 0) {
      wavefronts += SharedWavefronts({addresses.at.data() + first, static_cast<size_t>(count)}, 16);
    }
  }
  Counters& c = w.counters;
  c.shared_bytes += 128.0 * matrices;
  if (space == Space::kShared) {
    if (store) {
      c.shared_store_requests += 1;
      c.shared_store_wavefronts += wavefronts;
      c.shared_store_ideal += matrices;
    } else {
      c.shared_load_requests += 1;
      c.shared_load_wavefronts += wavefronts;
      c.shared_load_ideal += matrices;
    }
  }
  w.latency = w.block->latencies.shared + static_cast<float>(wavefronts);
  if (w.block->checker != nullptr && space == Space::kShared) {
    // Lanes hold the rows of their matrices, but the whole warp accesses every row.
    Addresses rows = addresses;
    rows.count = std::min(rows.count, 8 * matrices);
    w.block->checker->BeginInstruction();
    for (int row = 0; row < rows.count; ++row) {
      const uint64_t at = rows.at[static_cast<size_t>(row)];
      w.block->checker->Aligned(w, i, row, at, 16);
      for (uint64_t piece = 0; piece < 16; piece += 4) {
        w.block->checker->Shared(w, i, row, at + piece, 4,
                                 store ? AccessKind::kAtomic : AccessKind::kRead);
      }
    }
  }
  // The values never affect control flow, so each lane gets its own row.
  if (store) {
    return;
  }
  for (int m = 0; m < i.writes; ++m) {
    int n = 0;
    ForLanes(w.active, [&](int l) {
      const uint64_t address = addresses.at[static_cast<size_t>(n++)];
      SetLane(w, w.operands(i)[m], l, ReadAt(w, space, l, address, 4));
    });
  }
}

// wmma.load and wmma.store: a tile at one address with a stride. Approximates the fragment layouts:
// a row of 16 elements for two lanes.
void TileAccess(Warp& w, const Instruction& i) {
  const bool store = i.code != 0;
  Addresses base = Gather(w, i, i.writes);
  const Space space = Resolve(i.space, base);
  const uint16_t* operands = w.operands(i);
  const bool has_stride = (i.detail & 1) != 0;
  const int rows = 16;
  const int row_bytes = i.bytes * 16;
  Addresses rows_at;
  rows_at.count = kWarpLanes;
  int n = 0;
  uint64_t first = base.count > 0 ? base.at[0] : 0;
  uint64_t stride = 16;
  if (has_stride && base.count > 0) {
    stride = GetLane(w, operands[i.writes + 1], std::countr_zero(w.active));
  }
  const int each = std::max(1, row_bytes / 2);
  for (n = 0; n < kWarpLanes; ++n) {
    const auto row = static_cast<uint64_t>(n / 2 % rows);
    rows_at.at[static_cast<size_t>(n)] =
        first + row * stride * i.bytes + static_cast<uint64_t>(n % 2 * each);
  }
  Counters& c = w.counters;
  const int request_bytes = std::min(each, 16);
  const int requests = std::max(1, each / 16);
  if (space == Space::kShared) {
    const int wavefronts =
        requests * SharedWavefronts({rows_at.at.data(), kWarpLanes}, request_bytes);
    (store ? c.shared_store_requests : c.shared_load_requests) += requests;
    (store ? c.shared_store_wavefronts : c.shared_load_wavefronts) += wavefronts;
    (store ? c.shared_store_ideal : c.shared_load_ideal) +=
        requests * Ideal(kWarpLanes, request_bytes);
    c.shared_bytes += row_bytes * rows;
    w.latency = w.block->latencies.shared + static_cast<float>(wavefronts);
  } else if (store) {
    c.store_requests[static_cast<size_t>(Width(request_bytes))] += requests;
    c.store_sectors[static_cast<size_t>(Width(request_bytes))] += CountWrite(w, rows_at, each);
    c.store_bytes += row_bytes * rows;
    c.kind[static_cast<size_t>(Kind::kStoreGlobal)] += 1;
  } else {
    int sectors = 0;
    int lines = 0;
    w.latency = CountRead(w, rows_at, each, false, sectors, lines);
    c.load_requests[static_cast<size_t>(Width(request_bytes))] += requests;
    c.load_sectors[static_cast<size_t>(Width(request_bytes))] += sectors;
    c.load_bytes += row_bytes * rows;
    c.global_lines += lines;
    c.kind[static_cast<size_t>(Kind::kLoadGlobal)] += 1;
    c.loads += 1;
    c.load_cycles += w.latency;
    c.load_byte_cycles += static_cast<double>(w.latency) * sectors * kSectorBytes;
  }
  if (store) {
    return;
  }
  for (int m = 0; m < i.writes; ++m) {
    ForLanes(w.active, [&](int l) { SetLane(w, operands[m], l, 0); });
  }
}

void NoAccess(Warp&, const Instruction&) {}

// --- Binding -------------------------------------------------------------------------------------

struct AccessType {
  int bytes = 0;
  bool is_signed = false;
};
AccessType TypeOf(std::string_view name) {
  if (name == "f16x2" || name == "bf16x2") return {4, false};
  if (name == "bf16") return {2, false};
  if (name.size() < 2) return {};
  const std::string_view bits = name.substr(1);
  if (name[0] != 'b' && name[0] != 'u' && name[0] != 's' && name[0] != 'f') return {};
  const bool is_signed = name[0] == 's';
  if (bits == "8") return {1, is_signed};
  if (bits == "16") return {2, is_signed};
  if (bits == "32") return {4, is_signed};
  if (bits == "64") return {8, is_signed};
  return {};
}

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

Space SpaceOf(const Opcode& opcode) {
  for (const std::string_view part : opcode.parts) {
    if (part == "global") return Space::kGlobal;
    if (StartsWith(part, "shared")) return Space::kShared;
    if (part == "local") return Space::kLocal;
    if (StartsWith(part, "param")) return Space::kParameter;
    if (part == "const") return Space::kConstant;
  }
  return Space::kGeneric;
}

int VectorOf(const Opcode& opcode) {
  return opcode.Has("v8") ? 8 : opcode.Has("v4") ? 4 : opcode.Has("v2") ? 2 : 1;
}

bool Choose(Decoder& decoder, Handler handler, Kind kind, Pipe pipe, float issue, float latency) {
  Instruction& i = decoder.instruction();
  i.execute = handler;
  i.kind = kind;
  i.pipe = pipe;
  i.issue = issue;
  i.latency = latency;
  return decoder.ok();
}

bool Refuse(Decoder& decoder, std::string_view why) {
  decoder.Fail(why);
  return false;
}

// Returns the operand itself, or the elements of a vector.
std::vector<Operand> Elements(const Operand& operand) {
  return operand.type == Operand::Type::kVector ? operand.elements : std::vector<Operand>{operand};
}

bool MayBeShared(Space space) { return space == Space::kShared || space == Space::kGeneric; }

bool BindLoadStore(const Opcode& opcode, const std::vector<Operand>& operands, Decoder& decoder) {
  const bool load = opcode.name() != "st";
  const AccessType type = TypeOf(opcode.type());
  Instruction& i = decoder.instruction();
  i.space = SpaceOf(opcode);
  i.lanes = static_cast<uint8_t>(VectorOf(opcode));
  i.bytes = static_cast<uint8_t>(type.bytes);
  if (type.bytes == 0 || operands.size() < 2) return Refuse(decoder, "not known");
  const Operand& address = load ? operands[1] : operands[0];
  const std::vector<Operand> values = Elements(load ? operands[0] : operands[1]);
  // Arguments of functions stay in registers.
  if (address.names_variable && address.space == Space::kArgument) i.space = Space::kArgument;
  if (values.size() != i.lanes) return Refuse(decoder, "a vector of another size");
  if (!load && (i.space == Space::kConstant || i.space == Space::kParameter)) {
    return Refuse(decoder, "not known");
  }
  const auto kind_of = [&](const Operand& value) {
    if (type.bytes == 8) return SlotClass::kLong;
    return value.type == Operand::Type::kRegister ? decoder.KindOf(value) : SlotClass::kWord;
  };
  if (load) {
    for (const Operand& value : values) decoder.Write(value, kind_of(value));
    decoder.ReadAddress(address);
    i.code = type.is_signed ? 1 : 0;
    if (type.is_signed && type.bytes == 2) i.code = 2;
    i.detail = opcode.Has("volatile") || opcode.Has("acquire") || opcode.Has("relaxed") ||
                       opcode.Has("cg") || opcode.Has("cv")
                   ? 1
                   : 0;
    i.hidden_synchronisation =
        MayBeShared(i.space) && (opcode.Has("volatile") || opcode.Has("acquire"));
    i.shared_width = MayBeShared(i.space) ? i.bytes : 0;
    if (i.space == Space::kParameter || i.space == Space::kArgument) {
      return Choose(decoder, Load, Kind::kOther, Pipe::kNone, 0, 1);
    }
    return Choose(decoder, Load, Kind::kOther, Pipe::kMemory, 1, 30);
  }
  i.shared_width = MayBeShared(i.space) ? i.bytes : 0;
  i.detail = opcode.Has("volatile") || opcode.Has("release") || opcode.Has("relaxed") ? 1 : 0;
  decoder.ReadAddress(address);
  for (const Operand& value : values) decoder.Read(value, kind_of(value));
  if (i.space == Space::kArgument) {
    return Choose(decoder, Store, Kind::kOther, Pipe::kNone, 0.25F, 1);
  }
  return Choose(decoder, Store, Kind::kOther, Pipe::kMemory, 1, 1);
}

bool BindAtomic(const Opcode& opcode, const std::vector<Operand>& operands, Decoder& decoder) {
  const bool returns = opcode.name() == "atom";
  const std::string_view type_name = opcode.type();
  const AccessType type = TypeOf(type_name);
  Instruction& i = decoder.instruction();
  if (type.bytes == 0 || VectorOf(opcode) != 1) return Refuse(decoder, "not known");
  constexpr std::pair<std::string_view, AtomicOperation> kOperations[] = {
      {"add", kAdd}, {"min", kMin},       {"max", kMax},  {"and", kAnd},       {"or", kOr},
      {"xor", kXor}, {"exch", kExchange}, {"cas", kSwap}, {"inc", kIncrement}, {"dec", kDecrement}};
  bool found = false;
  for (const auto& [text, operation] : kOperations) {
    if (opcode.Has(text)) {
      i.code = operation;
      found = true;
    }
  }
  const size_t first = returns ? 1 : 0;
  const size_t sources = i.code == kSwap ? 2 : 1;
  if (!found || operands.size() < first + 1 + sources) return Refuse(decoder, "not known");
  i.space = SpaceOf(opcode);
  i.bytes = static_cast<uint8_t>(type.bytes);
  i.is_atomic = true;
  i.shared_width = MayBeShared(i.space) ? i.bytes : 0;
  i.detail = type_name == "f32"                             ? kFloat
             : type_name == "f64"                           ? kDouble
             : type_name == "f16x2" || type_name == "f16"   ? kHalves
             : type_name == "bf16x2" || type_name == "bf16" ? kBrains
             : type.is_signed                               ? kSigned
                                                            : kUnsigned;
  const SlotClass kind = type.bytes == 8 ? SlotClass::kLong : SlotClass::kWord;
  if (returns) decoder.Write(operands[0], kind);
  decoder.ReadAddress(operands[first]);
  for (size_t k = 1; k <= sources; ++k) decoder.Read(operands[first + k], kind);
  return Choose(decoder, Atomic, Kind::kOther, Pipe::kMemory, 1, 1);
}

bool BindCopy(const Opcode& opcode, const std::vector<Operand>& operands, Decoder& decoder) {
  Instruction& i = decoder.instruction();
  if (opcode.Has("bulk")) return Refuse(decoder, "bulk copies");
  if (!opcode.Has("async")) return Refuse(decoder, "not known");
  if (opcode.Has("mbarrier")) i.hidden_synchronisation = true;
  if (opcode.Has("mbarrier")) return Choose(decoder, NoAccess, Kind::kBarrier, Pipe::kMemory, 1, 4);
  if (opcode.Has("commit_group")) {
    return Choose(decoder, CommitAsync, Kind::kOther, Pipe::kControl, 1, 1);
  }
  if (opcode.Has("wait_group") || opcode.Has("wait_all")) {
    i.flow = Flow::kWaitAsync;
    i.immediate = -1;
    if (!operands.empty() && operands[0].type == Operand::Type::kImmediate) {
      i.immediate = static_cast<int64_t>(std::min<uint64_t>(operands[0].bits, 64));
    }
    return Choose(decoder, WaitAsync, Kind::kOther, Pipe::kControl, 1, 1);
  }
  if (operands.size() < 3 || operands[2].type != Operand::Type::kImmediate ||
      (operands[2].bits != 4 && operands[2].bits != 8 && operands[2].bits != 16)) {
    return Refuse(decoder, "not known");
  }
  i.bytes = static_cast<uint8_t>(operands[2].bits);
  i.space = SpaceOf(opcode);
  decoder.ReadAddress(operands[1]);
  const int64_t from = i.immediate;
  if (from < -(int64_t{1} << 40) || from > int64_t{1} << 40) return Refuse(decoder, "not known");
  // The destination is the first operand.
  decoder.Begin(i);
  decoder.ReadAddress(operands[0]);
  const int64_t to = i.immediate;
  decoder.ReadAddress(operands[1]);
  i.immediate = to;
  i.flops = static_cast<double>(from);
  i.detail = opcode.Has("cg") ? 1 : 0;
  if (operands.size() > 3 && (operands[3].type == Operand::Type::kImmediate ||
                              operands[3].type == Operand::Type::kRegister)) {
    if (operands[3].type == Operand::Type::kRegister &&
        decoder.ClassOf(operands[3].slot) == SlotClass::kPredicate) {
      return Refuse(decoder, "not known");
    }
    if (operands[3].type == Operand::Type::kImmediate) {
      decoder.Read(operands[3], SlotClass::kWord);
    } else {
      decoder.ReadAny(operands[3]);
    }
  }
  return Choose(decoder, AsyncCopy, Kind::kOther, Pipe::kMemory, 1, 1);
}

bool BindMatrixLoad(const Opcode& opcode, const std::vector<Operand>& operands, Decoder& decoder) {
  const bool store = opcode.name() == "stmatrix";
  Instruction& i = decoder.instruction();
  if (operands.size() < 2 || !opcode.Has("m8n8")) return Refuse(decoder, "not known");
  i.lanes = opcode.Has("x4") ? 4 : opcode.Has("x2") ? 2 : 1;
  i.space = SpaceOf(opcode);
  i.code = store ? 1 : 0;
  if (store) {
    decoder.ReadAddress(operands[0]);
    for (const Operand& value : Elements(operands[1])) decoder.Read(value, SlotClass::kWord);
  } else {
    for (const Operand& value : Elements(operands[0])) decoder.Write(value, SlotClass::kWord);
    decoder.ReadAddress(operands[1]);
  }
  return Choose(decoder, MatrixLoad, Kind::kMatrixLoad, Pipe::kMemory, 1, 33);
}

bool BindTile(const Opcode& opcode, const std::vector<Operand>& operands, Decoder& decoder) {
  const bool store = opcode.Has("store");
  if (!store && !opcode.Has("load")) return Refuse(decoder, "not known");
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  Instruction& i = decoder.instruction();
  i.space = SpaceOf(opcode);
  i.code = store ? 1 : 0;
  // The mapping of lanes to elements is not modelled.
  i.hidden_synchronisation = store && MayBeShared(i.space);
  const std::string_view type = opcode.type();
  i.bytes = type == "f32" || type == "s32" || type == "tf32" ? 4
            : type == "f64"                                  ? 8
            : type == "s8" || type == "u8"                   ? 1
                                                             : 2;
  const auto stride = [&](size_t at) {
    if (operands.size() <= at) return;
    i.detail = 1;
    decoder.Read(operands[at], SlotClass::kWord);
  };
  if (store) {
    decoder.ReadAddress(operands[0]);
    stride(2);
    if (i.detail == 0) return Refuse(decoder, "a tile without a stride");
    for (const Operand& value : Elements(operands[1])) decoder.ReadAny(value);
  } else {
    for (const Operand& value : Elements(operands[0])) decoder.Write(value, decoder.KindOf(value));
    decoder.ReadAddress(operands[1]);
    stride(2);
  }
  return Choose(decoder, TileAccess, Kind::kMatrixLoad, Pipe::kMemory, 2, 33);
}

}  // namespace

int SharedWavefronts(std::span<const uint64_t> addresses, int bytes) {
  const int lanes_at_once = bytes <= 4 ? kWarpLanes : bytes <= 8 ? kWarpLanes / 2 : kWarpLanes / 4;
  const int words = std::max(1, bytes / 4);
  int wavefronts = 0;
  for (size_t start = 0; start < addresses.size(); start += static_cast<size_t>(lanes_at_once)) {
    const size_t end = std::min(addresses.size(), start + static_cast<size_t>(lanes_at_once));
    // Distinct words requested from each bank.
    std::array<std::array<uint64_t, kWarpLanes>, kBanks> wanted;
    std::array<uint8_t, kBanks> count = {};
    int most = 1;
    for (size_t l = start; l < end; ++l) {
      for (int word = 0; word < words; ++word) {
        const uint64_t at = addresses[l] / 4 + static_cast<uint64_t>(word);
        const auto bank = static_cast<size_t>(at % kBanks);
        uint8_t& known = count[bank];
        bool found = false;
        for (uint8_t k = 0; k < known && !found; ++k) found = wanted[bank][k] == at;
        if (!found && known < kWarpLanes) {
          wanted[bank][known++] = at;
          most = std::max<int>(most, known);
        }
      }
    }
    wavefronts += most;
  }
  return std::max(1, wavefronts);
}

bool BindAccess(const Opcode& opcode, const std::vector<Operand>& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  if (name == "ld" || name == "ldu" || name == "st")
    return BindLoadStore(opcode, operands, decoder);
  if (name == "atom" || name == "red") return BindAtomic(opcode, operands, decoder);
  if (name == "cp") return BindCopy(opcode, operands, decoder);
  if (name == "ldmatrix" || name == "stmatrix") return BindMatrixLoad(opcode, operands, decoder);
  if (name == "wmma") return BindTile(opcode, operands, decoder);
  return Choose(decoder, NoAccess, Kind::kOther, Pipe::kMemory, 1, 1);
}

}  // namespace kernelcast::worker::ptx
