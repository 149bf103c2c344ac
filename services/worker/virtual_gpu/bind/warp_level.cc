#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include "services/worker/virtual_gpu/bind/binding.h"

// Instructions whose lanes exchange values.

namespace kernelcast::worker::virtual_gpu {
namespace {

constexpr Cost kVoteCost{Kind::kVote, Pipe::kInteger, 1, 12};

void ReadActive(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  ForLanes(w.active, [&](int l) { d[l] = w.active; });
}

enum ShuffleMode : uint8_t { kUpLanes, kDownLanes, kButterfly, kIndexed };
void Shuffle(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const int reads = i.writes;
  const auto* a = w.lanes<LaneU32>(i, reads);
  const auto* b = w.lanes<LaneU32>(i, reads + 1);
  const auto* c = w.lanes<LaneU32>(i, reads + 2);
  uint32_t values[kWarpLanes];
  for (int l = 0; l < kWarpLanes; ++l) values[l] = a[l];
  uint32_t valid = 0;
  ForLanes(w.active, [&](int l) {
    const auto lane = static_cast<uint32_t>(l);
    const uint32_t by = b[l] & 31;
    const uint32_t clamp = c[l] & 31;
    const uint32_t segment = c[l] >> 8 & 31;
    const uint32_t most = (lane & segment) | (clamp & ~segment);
    const uint32_t least = lane & segment;
    int32_t from = 0;
    bool ok = true;
    switch (i.code) {
      case kUpLanes:
        from = l - static_cast<int32_t>(by);
        ok = from >= static_cast<int32_t>(most);
        break;
      case kDownLanes:
        from = l + static_cast<int32_t>(by);
        ok = from <= static_cast<int32_t>(most);
        break;
      case kButterfly:
        from = static_cast<int32_t>(lane ^ by);
        ok = from <= static_cast<int32_t>(most);
        break;
      default:
        from = static_cast<int32_t>(least | (by & ~segment));
        ok = from <= static_cast<int32_t>(most);
    }
    if (!ok || from < 0 || from >= kWarpLanes) from = l;
    d[l] = values[from];
    valid |= static_cast<uint32_t>(ok) << l;
  });
  if (reads > 1) {
    uint32_t& p = w.predicate(i, 1);
    p = (p & ~w.active) | (valid & w.active);
  }
}

// Calls f with each group of active lanes that take part together: those with the same mask.
template <class Function>
void ForGroups(Warp& w, const Instruction& i, Function f) {
  if (i.mask_operand == 0) {
    f(w.active);
    return;
  }
  const auto* masks = w.lanes<LaneU32>(i, i.mask_operand - 1);
  for (uint32_t left = w.active; left != 0;) {
    const int first = std::countr_zero(left);
    uint32_t group = 0;
    ForLanes(left, [&](int l) {
      if (masks[l] == masks[first]) group |= uint32_t{1} << l;
    });
    left &= ~group;
    f(group);
  }
}

enum VoteMode : uint8_t { kAll, kAny, kUniform, kBallot };
void Vote(Warp& w, const Instruction& i) {
  uint32_t holds = w.predicate(i, 1);
  if (i.detail != 0) holds = ~holds;
  ForGroups(w, i, [&](uint32_t group) {
    const uint32_t p = holds & group;
    if (i.code == kBallot) {
      auto* d = w.lanes<LaneU32>(i, 0);
      ForLanes(group, [&](int l) { d[l] = p; });
      return;
    }
    const bool result = i.code == kAll   ? p == group
                        : i.code == kAny ? p != 0
                                         : p == group || p == 0;
    uint32_t& d = w.predicate(i, 0);
    d = result ? d | group : d & ~group;
  });
}

template <class Lane>
void Match(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<Lane>(i, i.writes);
  ForGroups(w, i, [&](uint32_t group) {
    uint32_t equal[kWarpLanes] = {};
    bool all = true;
    ForLanes(group, [&](int l) {
      ForLanes(group, [&](int k) {
        if (a[l] == a[k]) equal[l] |= uint32_t{1} << k;
      });
      all = all && equal[l] == group;
    });
    ForLanes(group, [&](int l) { d[l] = i.code == kAll ? (all ? group : 0) : equal[l]; });
    if (i.writes > 1) {
      uint32_t& p = w.predicate(i, 1);
      p = all ? p | group : p & ~group;
    }
  });
}

enum Reduction : uint8_t { kAddAll, kMinAll, kMaxAll, kAndAll, kOrAll, kXorAll };
void ReduceGroup(Warp& w, const Instruction& i, uint32_t group) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  bool first = true;
  uint32_t total = 0;
  ForLanes(group, [&](int l) {
    const uint32_t value = a[l];
    if (first) {
      total = value;
      first = false;
      return;
    }
    const auto left = static_cast<int32_t>(total);
    const auto right = static_cast<int32_t>(value);
    switch (i.code) {
      case kAddAll: total += value; break;
      case kMinAll:
        total =
            i.detail != 0 ? static_cast<uint32_t>(std::min(left, right)) : std::min(total, value);
        break;
      case kMaxAll:
        total =
            i.detail != 0 ? static_cast<uint32_t>(std::max(left, right)) : std::max(total, value);
        break;
      case kAndAll: total &= value; break;
      case kOrAll: total |= value; break;
      default: total ^= value;
    }
  });
  ForLanes(group, [&](int l) { d[l] = total; });
}
void Reduce(Warp& w, const Instruction& i) {
  ForGroups(w, i, [&](uint32_t group) { ReduceGroup(w, i, group); });
}

void Elect(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  uint32_t& p = w.predicate(i, 1);
  ForGroups(w, i, [&](uint32_t group) {
    const auto leader = static_cast<uint32_t>(std::countr_zero(group));
    ForLanes(group, [&](int l) { d[l] = leader; });
    p = (p & ~group) | uint32_t{1} << leader;
  });
}

}  // namespace

bool BindShuffle(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (operands.size() < 4) return Refuse(decoder, "too few operands");
  Instruction& i = decoder.instruction();
  i.code = opcode.Has("up")     ? kUpLanes
           : opcode.Has("down") ? kDownLanes
           : opcode.Has("bfly") ? kButterfly
                                : kIndexed;
  decoder.Write(operands[0], kWord);
  if (operands[0].has_second) decoder.WriteSlot(operands[0].second, kPredicate);
  for (size_t k = 1; k <= 3; ++k) decoder.Read(operands[k], kWord);
  ReadMask(operands, 4, decoder);
  return Set(decoder, Shuffle, {Kind::kShuffle, Pipe::kShuffle, 1, 23});
}

bool BindActiveMask(const Opcode&, const Operands& operands, Decoder& decoder) {
  if (operands.empty()) return Refuse(decoder, "too few operands");
  decoder.Write(operands[0], kWord);
  return Set(decoder, ReadActive, kVoteCost);
}

bool BindVote(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  Instruction& i = decoder.instruction();
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  i.code = opcode.Has("ballot") ? kBallot
           : opcode.Has("all")  ? kAll
           : opcode.Has("any")  ? kAny
                                : kUniform;
  decoder.Write(operands[0], i.code == kBallot ? kWord : kPredicate);
  if (operands[1].type != Operand::Type::kRegister) {
    decoder.Read(operands[1], kPredicate);
    return Refuse(decoder, "a constant");
  }
  decoder.Read(operands[1], kPredicate);
  i.detail = operands[1].negated ? 1 : 0;
  ReadMask(operands, 2, decoder);
  return Set(decoder, Vote, kVoteCost);
}

bool BindMatch(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  Instruction& i = decoder.instruction();
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  const NumberType type = NumberTypeOf(opcode.type());
  if (type == NumberType::kNone) return Refuse(decoder, "not known");
  i.code = opcode.Has("all") ? kAll : kAny;
  decoder.Write(operands[0], kWord);
  if (operands[0].has_second) decoder.WriteSlot(operands[0].second, kPredicate);
  decoder.Read(operands[1], ClassFor(type));
  ReadMask(operands, 2, decoder);
  // One step per distinct value.
  return Set(decoder, ClassFor(type) == kLong ? Match<LaneU64> : Match<LaneU32>,
             {Kind::kVote, Pipe::kShuffle, i.code == kAny ? 16.0F : 2.0F, 60});
}

bool BindReduction(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  Instruction& i = decoder.instruction();
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  const NumberType type = NumberTypeOf(opcode.type());
  if (BytesOf(type) != 4 || IsReal(type)) return Refuse(decoder, "not known");
  i.code = opcode.Has("add")   ? kAddAll
           : opcode.Has("min") ? kMinAll
           : opcode.Has("max") ? kMaxAll
           : opcode.Has("and") ? kAndAll
           : opcode.Has("or")  ? kOrAll
                               : kXorAll;
  i.detail = IsSigned(type) ? 1 : 0;
  decoder.Write(operands[0], kWord);
  decoder.Read(operands[1], kWord);
  ReadMask(operands, 2, decoder);
  return Set(decoder, Reduce, {Kind::kVote, Pipe::kShuffle, 2, 30});
}

bool BindElection(const Opcode&, const Operands& operands, Decoder& decoder) {
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  decoder.Write(operands[0], kWord);
  if (!operands[0].has_second) return Refuse(decoder, "not known");
  decoder.WriteSlot(operands[0].second, kPredicate);
  ReadMask(operands, 1, decoder);
  return Set(decoder, Elect, kVoteCost);
}

}  // namespace kernelcast::worker::virtual_gpu
