#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "services/worker/virtual_gpu/bind/memory_operands.h"
#include "services/worker/virtual_gpu/execute/access.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

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
        const uint64_t word = ReadAt(w, Space::kShared, l, address, 4);
        // code: signed
        WriteLane(w, slot, l,
                  i.code == 0 ? word : static_cast<uint64_t>(int64_t{static_cast<int32_t>(word)}));
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
  const Space space = Resolve(w, i.space, addresses);
  const int bytes = i.bytes * i.lanes;
  switch (space) {
    case Space::kShared: CountShared(w, addresses, bytes, true); break;
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
      const auto width = static_cast<size_t>(WidthIndex(bytes));
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
    CheckAccess(w, i, addresses, {space, i.bytes, i.lanes, AccessKind::kRead});
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
      WriteLane(w, operands[element], l, value);
    }
  });
}

// detail: whether other blocks see the store at once.
void Store(Warp& w, const Instruction& i) {
  Addresses addresses = Gather(w, i, 0);
  const Space space = Resolve(w, i.space, addresses);
  const int bytes = i.bytes * i.lanes;
  switch (space) {
    case Space::kShared: CountShared(w, addresses, bytes, false); break;
    case Space::kLocal:
      w.counters.kind[static_cast<size_t>(Kind::kStoreLocal)] += 1;
      CountLocal(w, addresses, bytes);
      break;
    case Space::kArgument:
    case Space::kParameter: break;
    default: {
      const auto width = static_cast<size_t>(WidthIndex(bytes));
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
    CheckAccess(w, i, addresses, {space, i.bytes, i.lanes, AccessKind::kWrite, operands});
  }
  ForLanes(w.active, [&](int l) {
    const uint64_t address = addresses.at[static_cast<size_t>(n++)];
    for (int element = 0; element < i.lanes; ++element) {
      WriteAt(w, space, l, address + static_cast<uint64_t>(element * i.bytes), i.bytes,
              ReadLane(w, operands[element], l));
    }
  });
}

}  // namespace

bool BindLoadStore(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const bool load = opcode.name() != "st";
  const AccessType type = AccessTypeOf(opcode.type());
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
    i.orders_blocks = i.detail != 0 && i.space != Space::kShared;
    i.shared_width = MayBeShared(i.space) ? i.bytes : 0;
    if (i.space == Space::kParameter || i.space == Space::kArgument) {
      return Set(decoder, Load, {Kind::kOther, Pipe::kNone, 0, 1});
    }
    return Set(decoder, Load, {Kind::kOther, Pipe::kMemory, 1, 30});
  }
  i.shared_width = MayBeShared(i.space) ? i.bytes : 0;
  i.detail = opcode.Has("volatile") || opcode.Has("release") || opcode.Has("relaxed") ? 1 : 0;
  i.orders_blocks = i.detail != 0 && i.space != Space::kShared;
  decoder.ReadAddress(address);
  for (const Operand& value : values) decoder.Read(value, kind_of(value));
  if (i.space == Space::kArgument) {
    return Set(decoder, Store, {Kind::kOther, Pipe::kNone, 0.25F, 1});
  }
  return Set(decoder, Store, {Kind::kOther, Pipe::kMemory, 1, 1});
}

// "prefetch" and similar, which have no effect on values.
bool BindCacheHint(const Opcode&, const Operands&, Decoder& decoder) {
  return Set(decoder, Nothing, {Kind::kOther, Pipe::kMemory, 1, 1});
}

}  // namespace kernelcast::worker::virtual_gpu
