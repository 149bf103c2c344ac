#include <cstdint>
#include <string_view>

#include "services/worker/virtual_gpu/bind/binding.h"
#include "services/worker/virtual_gpu/bind/predicates.h"

// Moves between registers, and addresses.

namespace kernelcast::worker::virtual_gpu {
namespace {

template <class Lane>
void Move(Warp& w, const Instruction& i) {
  auto* d = w.lanes<Lane>(i, 0);
  const auto* a = w.lanes<Lane>(i, 1);
  ForLanes(w.active, [&](int l) { d[l] = a[l]; });
}

// In a check each read finds that much time has passed. In an estimate time does not advance: a
// loop that waits for it never ends and is cut off.
template <class Lane>
void ReadClock(Warp& w, const Instruction& i) {
  constexpr uint64_t kTick = 4096;
  auto* d = w.lanes<Lane>(i, 0);
  const uint64_t now = w.block->checker != nullptr ? kTick * ++w.clock_reads : 0;
  ForLanes(w.active, [&](int l) { d[l] = static_cast<Lane>(now); });
}

// Packs several equal parts into a register of i.bytes.
template <class Lane>
void Pack(Warp& w, const Instruction& i) {
  auto* d = w.lanes<Lane>(i, 0);
  const int bits = 8 * i.bytes / i.reads;
  ForLanes(w.active, [&](int l) {
    uint64_t value = 0;
    for (int part = 0; part < i.reads; ++part) {
      value |= uint64_t{w.lanes<LaneU32>(i, 1 + part)[l]} << (bits * part);
    }
    d[l] = static_cast<Lane>(value);
  });
}

template <class Lane>
void Unpack(Warp& w, const Instruction& i) {
  const auto* a = w.lanes<Lane>(i, i.writes);
  const int bits = 8 * i.bytes / i.writes;
  ForLanes(w.active, [&](int l) {
    const uint64_t value = a[l];
    for (int part = 0; part < i.writes; ++part) {
      w.lanes<LaneU32>(i, part)[l] =
          static_cast<uint32_t>(value >> (bits * part) & ((uint64_t{1} << bits) - 1));
    }
  });
}

template <uint64_t kChange>
void MoveWindow(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU64>(i, 0);
  const auto* a = w.lanes<LaneU64>(i, 1);
  ForLanes(w.active, [&](int l) { d[l] = a[l] + kChange; });
}

void IsInSpace(Warp& w, const Instruction& i) {
  uint32_t result = 0;
  const uint16_t slot = w.operands(i)[1];
  ForLanes(w.active, [&](int l) {
    const uint64_t address = ReadLane(w, slot, l);
    const bool shared = address - kSharedWindow < kWindowBytes;
    const bool local = address - kLocalWindow < kWindowBytes;
    const bool is = i.space == Space::kShared  ? shared
                    : i.space == Space::kLocal ? local
                                               : !shared && !local;
    result |= static_cast<uint32_t>(is) << l;
  });
  uint32_t& p = w.predicate(i, 0);
  p = (p & ~w.active) | (result & w.active);
}

}  // namespace

bool BindMove(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  Instruction& i = decoder.instruction();
  // ptxas removes most copies between registers.
  const Cost cost{Kind::kMove, Pipe::kInteger, 0.25F, 1};
  if (opcode.type() == "pred") return BindPredicateMove(operands, decoder);
  const NumberType type = NumberTypeOf(opcode.type());
  if (type == NumberType::kNone) return Refuse(decoder, "not known");
  const SlotClass kind = ClassFor(type);
  i.bytes = static_cast<uint8_t>(BytesOf(type));
  if (operands[1].type == Operand::Type::kVector) {
    const auto& parts = operands[1].elements;
    if (parts.empty() || parts.size() > 4 || i.bytes % parts.size() != 0)
      return Refuse(decoder, "not known");
    decoder.Write(operands[0], kind);
    for (const Operand& part : parts) decoder.Read(part, kWord);
    return Set(decoder, kind == kLong ? Pack<LaneU64> : Pack<LaneU32>,
               {Kind::kMove, Pipe::kInteger, kind == kLong ? 0.25F : 0.5F, 4});
  }
  if (operands[0].type == Operand::Type::kVector) {
    const auto& parts = operands[0].elements;
    if (parts.empty() || parts.size() > 4 || i.bytes % parts.size() != 0)
      return Refuse(decoder, "not known");
    for (const Operand& part : parts) decoder.Write(part, kWord);
    decoder.Read(operands[1], kind);
    return Set(decoder, kind == kLong ? Unpack<LaneU64> : Unpack<LaneU32>,
               {Kind::kMove, Pipe::kInteger, kind == kLong ? 0.25F : 0.5F, 4});
  }
  decoder.Write(operands[0], kind);
  // Half registers are read completely.
  decoder.Read(operands[1], kind);
  if (operands[1].type == Operand::Type::kRegister && decoder.IsClock(operands[1].slot)) {
    return Set(decoder, kind == kLong ? ReadClock<LaneU64> : ReadClock<LaneU32>, cost);
  }
  return Set(decoder, kind == kLong ? Move<LaneU64> : Move<LaneU32>, cost);
}

bool BindWindow(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (operands.size() < 2 || opcode.type() != "u64") return Refuse(decoder, "not known");
  decoder.Write(operands[0], kLong);
  decoder.Read(operands[1], kLong);
  const Cost cost{Kind::kMove, Pipe::kInteger, 0, 1};
  const bool to = opcode.Has("to");
  if (opcode.Has("shared")) {
    return Set(decoder, to ? MoveWindow<0 - kSharedWindow> : MoveWindow<kSharedWindow>, cost);
  }
  if (opcode.Has("local")) {
    return Set(decoder, to ? MoveWindow<0 - kLocalWindow> : MoveWindow<kLocalWindow>, cost);
  }
  if (opcode.Has("global") || opcode.Has("const")) return Set(decoder, Move<LaneU64>, cost);
  return Refuse(decoder, "not known");
}

bool BindIsInSpace(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  Instruction& i = decoder.instruction();
  i.space = opcode.Has("shared") || opcode.Has("shared::cta") || opcode.Has("shared::cluster")
                ? Space::kShared
            : opcode.Has("local")  ? Space::kLocal
            : opcode.Has("global") ? Space::kGlobal
                                   : Space::kConstant;
  if (i.space == Space::kConstant) return Refuse(decoder, "not known");
  decoder.Write(operands[0], kPredicate);
  decoder.ReadAny(operands[1]);
  return Set(decoder, IsInSpace, {Kind::kPredicate, Pipe::kInteger, 2, 10});
}

// A cache hint with no effect on values.
bool BindCreatePolicy(const Opcode&, const Operands& operands, Decoder& decoder) {
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  decoder.Write(operands[0], kLong);
  return Set(decoder, Nothing, {Kind::kMove, Pipe::kInteger, 1, 4});
}

}  // namespace kernelcast::worker::virtual_gpu
