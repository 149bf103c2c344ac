#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>
#include <utility>

#include "services/worker/virtual_gpu/bind/memory_operands.h"
#include "services/worker/virtual_gpu/execute/access.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

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

// Sums of one or two narrow numbers.
template <bool kBrain>
uint64_t AddParts(int bytes, uint64_t old, uint64_t b) {
  using H = HalfType<kBrain>;
  uint64_t sum = 0;
  for (int at = 0; at < 8 * bytes; at += 16) {
    const float part = H::Decode(static_cast<uint32_t>(old >> at & 0xffff)) +
                       H::Decode(static_cast<uint32_t>(b >> at & 0xffff));
    sum |= uint64_t{H::Encode(part)} << at;
  }
  return sum;
}

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
        case kHalves: return AddParts<false>(i.bytes, old, b);
        case kBrains: return AddParts<true>(i.bytes, old, b);
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

bool OnReals(const Instruction& i) { return i.detail >= kFloat; }

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
  const Space space = Resolve(w, i.space, addresses);
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
    bool counts_up = i.code == kAdd && !OnReals(i) && i.result_unused && i.bytes == 4;
    ForLanes(w.active,
             [&](int l) { counts_up = counts_up && ReadLane(w, operands[i.writes + 1], l) == 1; });
    const int serial = counts_up ? wavefronts : std::max(wavefronts, depth);
    c.shared_atomic_cycles += OnReals(i) && i.code == kAdd ? SwapLoopCycles(depth) : 2.0 * serial;
    for (int l = 0; l < addresses.count; ++l) {
      w.block->shared_atomics.Add(addresses.at[static_cast<size_t>(l)], w.weight);
    }
    w.latency = w.block->latencies.shared + 20.0F * static_cast<float>(depth);
  } else {
    c.kind[static_cast<size_t>(Kind::kAtomicGlobal)] += 1;
    c.global_atomics += addresses.count;
    c.global_atomic_requests += 1;
    c.global_atomic_depth += depth;
    CountWrite(w, addresses, i.bytes);
    if (w.block->global_atomics != nullptr) {
      Lines lines;
      for (int l = 0; l < addresses.count; ++l) {
        lines.Add(addresses.at[static_cast<size_t>(l)], i.bytes);
      }
      for (int n = 0; n < lines.count(); ++n) {
        w.block->global_atomics->Add(lines.line(n), w.weight);
        Passes passes = PassesOf(addresses, lines.line(n));
        // Integer sums of a whole warp at one address are combined first.
        if (i.uniform_address && i.result_unused && i.code == kAdd && !OnReals(i))
          passes.passes = passes.sectors;
        w.block->global_atomic_ns->Add(lines.line(n),
                                       w.weight * AtomicNs(passes, lines.count() == 1, OnReals(i)));
      }
    }
    w.latency = w.block->latencies.atomic;
  }
  const int first = i.writes + 1;
  int n = 0;
  if (w.block->checker != nullptr) {
    CheckAccess(w, i, addresses, {space, i.bytes, 1, AccessKind::kAtomic});
  }
  ForLanes(w.active, [&](int l) {
    const uint64_t address = addresses.at[static_cast<size_t>(n++)];
    const uint64_t old = ReadAt(w, space, l, address, i.bytes);
    const uint64_t b = ReadLane(w, operands[first], l);
    const uint64_t third = i.reads > 2 ? ReadLane(w, operands[first + 1], l) : 0;
    WriteAt(w, space, l, address, i.bytes, Apply(i, old, b, third));
    if (i.writes > 0) WriteLane(w, operands[0], l, old);
  });
}

}  // namespace

bool BindAtomic(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const bool returns = opcode.name() == "atom";
  const std::string_view type_name = opcode.type();
  const AccessType type = AccessTypeOf(type_name);
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
  i.orders_blocks = i.space != Space::kShared;
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
  return Set(decoder, Atomic, {Kind::kOther, Pipe::kMemory, 1, 1});
}

}  // namespace kernelcast::worker::virtual_gpu
