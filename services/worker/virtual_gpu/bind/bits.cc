#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "services/worker/virtual_gpu/bind/arithmetic.h"
#include "services/worker/virtual_gpu/bind/elementwise.h"
#include "services/worker/virtual_gpu/bind/operations.h"
#include "services/worker/virtual_gpu/bind/predicates.h"

// Logic, shifts and the bits of a word.

namespace kernelcast::worker::virtual_gpu {
namespace {

struct And {
  template <class V>
  static V Of(V a, V b) {
    return static_cast<V>(a & b);
  }
};
struct Or {
  template <class V>
  static V Of(V a, V b) {
    return static_cast<V>(a | b);
  }
};
struct Xor {
  template <class V>
  static V Of(V a, V b) {
    return static_cast<V>(a ^ b);
  }
};
struct Not {
  template <class V>
  static V Of(V a) {
    return static_cast<V>(~a);
  }
};
struct LogicalNot {
  template <class V>
  static V Of(V a) {
    return a == 0 ? 1 : 0;
  }
};
struct ReverseBits {
  template <class V>
  static V Of(V a) {
    V result = 0;
    for (size_t bit = 0; bit < 8 * sizeof(V); ++bit) {
      result = static_cast<V>(result << 1 | (a >> bit & 1));
    }
    return result;
  }
};
struct ShiftLeft {
  template <class V>
  static V Of(V a, uint32_t by) {
    return by >= 8 * sizeof(V) ? V{0} : static_cast<V>(static_cast<Raw<V>>(a) << by);
  }
};
struct ShiftRight {
  template <class V>
  static V Of(V a, uint32_t by) {
    const auto most = static_cast<uint32_t>(8 * sizeof(V) - 1);
    if (by > most) return std::is_signed_v<V> ? static_cast<V>(a >> most) : V{0};
    return static_cast<V>(a >> by);
  }
};

void FunnelShift(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  const auto* c = w.lanes<LaneU32>(i, 3);
  const bool left = i.code == 0;
  const bool wraps = i.detail != 0;
  ForLanes(w.active, [&](int l) {
    const uint64_t both = uint64_t{b[l]} << 32 | a[l];
    const uint32_t by = wraps ? c[l] & 31 : std::min<uint32_t>(c[l], 32);
    d[l] = static_cast<uint32_t>(left ? (by == 0 ? both >> 32 : both >> (32 - by)) : both >> by);
  });
}

void Permute(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  const auto* c = w.lanes<LaneU32>(i, 3);
  ForLanes(w.active, [&](int l) {
    const uint64_t both = uint64_t{b[l]} << 32 | a[l];
    uint32_t result = 0;
    for (int byte = 0; byte < 4; ++byte) {
      const uint32_t select = c[l] >> (4 * byte) & 0xf;
      uint32_t value = both >> (8 * (select & 7)) & 0xff;
      if ((select & 8) != 0) value = (value & 0x80) != 0 ? 0xff : 0;
      result |= value << (8 * byte);
    }
    d[l] = result;
  });
}

void Lookup(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  const auto* c = w.lanes<LaneU32>(i, 3);
  const auto table = static_cast<uint32_t>(i.immediate);
  ForLanes(w.active, [&](int l) {
    uint32_t result = 0;
    for (uint32_t row = 0; row < 8; ++row) {
      if ((table >> row & 1) == 0) continue;
      result |= ((row & 4) != 0 ? a[l] : ~a[l]) & ((row & 2) != 0 ? b[l] : ~b[l]) &
                ((row & 1) != 0 ? c[l] : ~c[l]);
    }
    d[l] = result;
  });
}

template <class V>
void ExtractBits(Warp& w, const Instruction& i) {
  using T = IntegerType<V>;
  using U = std::make_unsigned_t<V>;
  auto* d = w.lanes<typename T::Lane>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  const auto* c = w.lanes<LaneU32>(i, 3);
  constexpr uint32_t kBits = 8 * sizeof(V);
  ForLanes(w.active, [&](int l) {
    const uint32_t at = b[l] & 0xff;
    const uint32_t count = c[l] & 0xff;
    const V value = T::Get(a, l);
    const bool sign = std::is_signed_v<V> && count > 0 &&
                      (static_cast<U>(value) >> std::min(at + count - 1, kBits - 1) & 1) != 0;
    U result = at >= kBits ? U{0} : static_cast<U>(static_cast<U>(value) >> at);
    // A field that extends beyond the number ends with it.
    const uint32_t own = at >= kBits ? 0 : std::min(count, kBits - at);
    if (own < kBits) {
      const U mask = static_cast<U>((U{1} << own) - 1);
      result = sign ? result | static_cast<U>(~mask) : result & mask;
    }
    T::Set(d, l, static_cast<V>(result));
  });
}

template <class V>
void InsertBits(Warp& w, const Instruction& i) {
  using T = IntegerType<V>;
  auto* d = w.lanes<typename T::Lane>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  const auto* b = w.lanes<typename T::Lane>(i, 2);
  const auto* c = w.lanes<LaneU32>(i, 3);
  const auto* e = w.lanes<LaneU32>(i, 4);
  constexpr uint32_t kBits = 8 * sizeof(V);
  ForLanes(w.active, [&](int l) {
    const uint32_t at = c[l] & 0xff;
    const uint32_t count = e[l] & 0xff;
    const V below = count >= kBits ? static_cast<V>(~V{0}) : static_cast<V>((V{1} << count) - 1);
    const V mask = at >= kBits ? V{0} : static_cast<V>(below << at);
    const V moved = at >= kBits ? V{0} : static_cast<V>(T::Get(a, l) << at);
    T::Set(d, l, static_cast<V>((T::Get(b, l) & ~mask) | (moved & mask)));
  });
}

// The result is always a word.
template <class V>
void CountBits(Warp& w, const Instruction& i) {
  using T = IntegerType<V>;
  using U = std::make_unsigned_t<V>;
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  ForLanes(w.active, [&](int l) {
    U value = static_cast<U>(T::Get(a, l));
    switch (i.code) {
      case 0: d[l] = static_cast<uint32_t>(std::popcount(value)); break;
      case 1: d[l] = static_cast<uint32_t>(std::countl_zero(value)); break;
      default: {
        if (std::is_signed_v<V> && static_cast<V>(value) < 0) value = static_cast<U>(~value);
        const int top = static_cast<int>(8 * sizeof(V)) - 1 - std::countl_zero(value);
        const int shift = static_cast<int>(8 * sizeof(V)) - 1 - top;
        d[l] = value == 0 ? 0xffffffff : static_cast<uint32_t>(i.code == 2 ? top : shift);
      }
    }
  });
}

// "fns": the position of the n-th set bit from a base, upwards or downwards.
void FindNthSet(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* mask = w.lanes<LaneU32>(i, 1);
  const auto* base = w.lanes<LaneU32>(i, 2);
  const auto* offset = w.lanes<LaneU32>(i, 3);
  ForLanes(w.active, [&](int l) {
    d[l] = 0xffffffff;
    const auto n = static_cast<int32_t>(offset[l]);
    if (base[l] > 31) return;
    const auto from = static_cast<int>(base[l]);
    if (n == 0) {
      if ((mask[l] >> from & 1) != 0) d[l] = base[l];
      return;
    }
    int64_t left = n < 0 ? -int64_t{n} : n;
    for (int bit = from; bit >= 0 && bit < 32; bit += n < 0 ? -1 : 1) {
      if ((mask[l] >> bit & 1) == 0 || --left > 0) continue;
      d[l] = static_cast<uint32_t>(bit);
      return;
    }
  });
}

void BitMask(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  ForLanes(w.active, [&](int l) {
    if (i.code == 0) {
      const uint32_t at = (i.detail & 1) != 0 ? a[l] & 31 : a[l];
      const uint32_t count = (i.detail & 1) != 0 ? b[l] & 31 : b[l];
      const uint32_t below = count >= 32 ? ~uint32_t{0} : (uint32_t{1} << count) - 1;
      d[l] = at >= 32 ? 0 : below << at;
      return;
    }
    const uint32_t count = (i.detail & 1) != 0 ? b[l] & 31 : std::min<uint32_t>(b[l], 32);
    if (count == 0) {
      d[l] = 0;
    } else {
      const uint32_t unused = 32 - count;
      d[l] = (i.detail & 2) != 0
                 ? static_cast<uint32_t>(static_cast<int32_t>(a[l] << unused) >> unused)
                 : a[l] << unused >> unused;
    }
  });
}

constexpr Cost kWordCost{Kind::kInteger, Pipe::kInteger, 1, 4.5F};

// Binds a word and three sources of a word.
bool BindWords(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const NumberType type = NumberTypeOf(opcode.type());
  if (type == NumberType::kNone || ClassFor(type) != kWord || operands.size() < 4) {
    return Refuse(decoder, "not known");
  }
  return Elementwise(decoder, operands, kWord, 3);
}

}  // namespace

bool BindLogic(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  if (opcode.type() == "pred") return BindPredicateLogic(opcode, operands, decoder);
  const NumberType type = NumberTypeOf(opcode.type());
  Handler handler = nullptr;
  size_t sources = 2;
  if (name == "and") handler = KC_BY_UNSIGNED(Binary, And);
  if (name == "or") handler = KC_BY_UNSIGNED(Binary, Or);
  if (name == "xor") handler = KC_BY_UNSIGNED(Binary, Xor);
  if (name == "not" || name == "cnot" || name == "brev") {
    sources = 1;
    handler = name == "not"    ? KC_BY_UNSIGNED(Unary, Not)
              : name == "cnot" ? KC_BY_UNSIGNED(Unary, LogicalNot)
                               : KC_BY_UNSIGNED(Unary, ReverseBits);
  }
  if (handler == nullptr || type == NumberType::kNone) return Refuse(decoder, "not known");
  Elementwise(decoder, operands, ClassFor(type), sources);
  return Set(decoder, handler, IntegerCost(type, 1, 2));
}

bool BindShift(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  const NumberType type = NumberTypeOf(opcode.type());
  const SlotClass kind = ClassFor(type);
  if (type == NumberType::kNone || operands.size() < 2) return Refuse(decoder, "not known");
  if (operands.size() < 3) return Refuse(decoder, "too few operands");
  Handler handler =
      name == "shl" ? KC_BY_UNSIGNED(Shift, ShiftLeft) : KC_BY_INTEGER(Shift, ShiftRight);
  if (handler == nullptr) return Refuse(decoder, "not known");
  decoder.Write(operands[0], kind);
  decoder.Read(operands[1], kind);
  decoder.Read(operands[2], kWord);
  return Set(decoder, handler, IntegerCost(type, 1, 2));
}

bool BindBitCount(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  Instruction& i = decoder.instruction();
  const NumberType type = NumberTypeOf(opcode.type());
  const SlotClass kind = ClassFor(type);
  if (type == NumberType::kNone || operands.size() < 2) return Refuse(decoder, "not known");
  i.code = name == "popc" ? 0 : name == "clz" ? 1 : opcode.Has("shiftamt") ? 3 : 2;
  Handler handler = nullptr;
  switch (type) {
    case NumberType::kU32: handler = CountBits<uint32_t>; break;
    case NumberType::kS32: handler = CountBits<int32_t>; break;
    case NumberType::kU64: handler = CountBits<uint64_t>; break;
    case NumberType::kS64: handler = CountBits<int64_t>; break;
    default: return Refuse(decoder, "not known");
  }
  decoder.Write(operands[0], kWord);
  decoder.Read(operands[1], kind);
  return Set(decoder, handler, {Kind::kInteger, Pipe::kConversion, 1, 12});
}

bool BindBitExtract(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const NumberType type = NumberTypeOf(opcode.type());
  const SlotClass kind = ClassFor(type);
  if (type == NumberType::kNone || operands.size() < 2) return Refuse(decoder, "not known");
  Handler handler = nullptr;
  switch (type) {
    case NumberType::kU32: handler = ExtractBits<uint32_t>; break;
    case NumberType::kS32: handler = ExtractBits<int32_t>; break;
    case NumberType::kU64: handler = ExtractBits<uint64_t>; break;
    case NumberType::kS64: handler = ExtractBits<int64_t>; break;
    default: return Refuse(decoder, "not known");
  }
  if (operands.size() < 4) return Refuse(decoder, "too few operands");
  decoder.Write(operands[0], kind);
  decoder.Read(operands[1], kind);
  decoder.Read(operands[2], kWord);
  decoder.Read(operands[3], kWord);
  return Set(decoder, handler, IntegerCost(type, 2, 6));
}

bool BindBitInsert(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const NumberType type = NumberTypeOf(opcode.type());
  const SlotClass kind = ClassFor(type);
  if (type == NumberType::kNone || operands.size() < 2) return Refuse(decoder, "not known");
  if (operands.size() < 5) return Refuse(decoder, "too few operands");
  decoder.Write(operands[0], kind);
  decoder.Read(operands[1], kind);
  decoder.Read(operands[2], kind);
  decoder.Read(operands[3], kWord);
  decoder.Read(operands[4], kWord);
  return Set(decoder, kind == kLong ? InsertBits<uint64_t> : InsertBits<uint32_t>,
             IntegerCost(type, 2, 4));
}

bool BindFunnelShift(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (!BindWords(opcode, operands, decoder)) return false;
  decoder.instruction().code = opcode.Has("l") ? 0 : 1;
  decoder.instruction().detail = opcode.Has("wrap") ? 1 : 0;
  return Set(decoder, FunnelShift, kWordCost);
}

bool BindPermute(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (!BindWords(opcode, operands, decoder)) return false;
  for (const std::string_view mode : {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) {
    if (opcode.Has(mode)) return Refuse(decoder, "not known");
  }
  return Set(decoder, Permute, kWordCost);
}

bool BindLookup(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (!BindWords(opcode, operands, decoder)) return false;
  if (operands.size() < 5 || operands[4].type != Operand::Type::kImmediate) {
    return Refuse(decoder, "not known");
  }
  decoder.instruction().immediate = static_cast<int64_t>(operands[4].bits);
  return Set(decoder, Lookup, kWordCost);
}

bool BindFindNthSet(const Opcode&, const Operands& operands, Decoder& decoder) {
  if (operands.size() < 4) return Refuse(decoder, "too few operands");
  Elementwise(decoder, operands, kWord, 3);
  return Set(decoder, FindNthSet, {Kind::kInteger, Pipe::kInteger, 40, 200});
}

// "bmsk" and "szext".
bool BindBitMask(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (operands.size() < 3) return Refuse(decoder, "too few operands");
  Instruction& i = decoder.instruction();
  i.code = opcode.name() == "bmsk" ? 0 : 1;
  i.detail = static_cast<uint8_t>((opcode.Has("wrap") ? 1 : 0) | (opcode.Has("s32") ? 2 : 0));
  Elementwise(decoder, operands, kWord, 2);
  return Set(decoder, BitMask, {Kind::kInteger, Pipe::kInteger, 1, 5});
}

}  // namespace kernelcast::worker::virtual_gpu
