#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "services/worker/virtual_gpu/bind/arithmetic.h"
#include "services/worker/virtual_gpu/bind/elementwise.h"
#include "services/worker/virtual_gpu/bind/operations.h"

// Integers of 16, 32 and 64 bits, also with carries.

namespace kernelcast::worker::virtual_gpu {
namespace {

struct MulHigh {
  template <class V>
  static V Of(V a, V b) {
    return Wrap<V>(static_cast<Wider<V>>(a) * static_cast<Wider<V>>(b) >> (8 * sizeof(V)));
  }
};
struct MadHigh {
  template <class V>
  static V Of(V a, V b, V c) {
    return Add::Of<V>(MulHigh::Of<V>(a, b), c);
  }
};
struct Rem {
  template <class V>
  static V Of(V a, V b) {
    if (b == 0) return a;
    if (std::is_signed_v<V> && b == static_cast<V>(-1)) return 0;
    return static_cast<V>(a % b);
  }
};
struct ReluMin {
  static int32_t Of(int32_t a, int32_t b) { return std::max(std::min(a, b), 0); }
};
struct ReluMax {
  static int32_t Of(int32_t a, int32_t b) { return std::max({a, b, 0}); }
};
int32_t Saturated(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX));
}
struct SaturatedAdd {
  static int32_t Of(int32_t a, int32_t b) { return Saturated(int64_t{a} + b); }
};
struct SaturatedSub {
  static int32_t Of(int32_t a, int32_t b) { return Saturated(int64_t{a} - b); }
};
struct SaturatedMadHigh {
  static int32_t Of(int32_t a, int32_t b, int32_t c) {
    return Saturated(int64_t{MulHigh::Of<int32_t>(a, b)} + c);
  }
};
struct Sad {
  template <class V>
  static V Of(V a, V b, V c) {
    return Add::Of<V>(c, a < b ? Sub::Of<V>(b, a) : Sub::Of<V>(a, b));
  }
};

// Products of twice the width.
template <class V, bool kAdds>
void MultiplyWide(Warp& w, const Instruction& i) {
  using Narrow = IntegerType<V>;
  using W = std::conditional_t<sizeof(V) == 4, Wider<V>,
                               std::conditional_t<std::is_signed_v<V>, int32_t, uint32_t>>;
  using Wide = IntegerType<W>;
  auto* d = w.lanes<typename Wide::Lane>(i, 0);
  const auto* a = w.lanes<typename Narrow::Lane>(i, 1);
  const auto* b = w.lanes<typename Narrow::Lane>(i, 2);
  const auto* c = kAdds ? w.lanes<typename Wide::Lane>(i, 3) : nullptr;
  ForLanes(w.active, [&](int l) {
    W product = Mul::Of<W>(static_cast<W>(Narrow::Get(a, l)), static_cast<W>(Narrow::Get(b, l)));
    if (kAdds) product = Add::Of<W>(product, Wide::Get(c, l));
    Wide::Set(d, l, product);
  });
}

// The condition code register holds one carry per lane. detail: 1 reads it, 2 writes it, 4
// multiplies first, 8 takes the high half, 16 subtracts, 32 signed.
template <class V>
void WithCarry(Warp& w, const Instruction& i) {
  using T = IntegerType<V>;
  using U = std::make_unsigned_t<V>;
  using Wide = std::conditional_t<sizeof(V) == 8, unsigned __int128, uint64_t>;
  using SignedWide = std::conditional_t<sizeof(V) == 8, __int128, int64_t>;
  const bool multiplies = (i.detail & 4) != 0;
  auto* d = w.lanes<typename T::Lane>(i, 0);
  const int carry = i.writes + i.reads - 1;
  auto& flags = w.predicate(i, carry);
  const auto* a = w.lanes<typename T::Lane>(i, i.writes);
  const auto* b = w.lanes<typename T::Lane>(i, i.writes + 1);
  const auto* c = multiplies ? w.lanes<typename T::Lane>(i, i.writes + 2) : nullptr;
  uint32_t out = flags;
  ForLanes(w.active, [&](int l) {
    U left = static_cast<U>(T::Get(a, l));
    U right = static_cast<U>(T::Get(b, l));
    if (multiplies) {
      const Wide product =
          (i.detail & 32) != 0
              ? static_cast<Wide>(
                    static_cast<SignedWide>(static_cast<std::make_signed_t<V>>(left)) *
                    static_cast<SignedWide>(static_cast<std::make_signed_t<V>>(right)))
              : static_cast<Wide>(left) * static_cast<Wide>(right);
      left = static_cast<U>((i.detail & 8) != 0 ? product >> (8 * sizeof(V)) : product);
      right = static_cast<U>(T::Get(c, l));
    }
    const U in = (i.detail & 1) != 0 ? static_cast<U>(flags >> l & 1) : U{0};
    const bool subtracts = (i.detail & 16) != 0;
    const Wide total =
        subtracts ? static_cast<Wide>(left) - right - in : static_cast<Wide>(left) + right + in;
    T::Set(d, l, static_cast<V>(static_cast<U>(total)));
    const bool carried = (total >> (8 * sizeof(V)) & 1) != 0;
    out = (out & ~(uint32_t{1} << l)) | static_cast<uint32_t>(carried) << l;
  });
  if ((i.detail & 2) != 0) flags = out;
}

}  // namespace

bool BindInteger(const Opcode& opcode, const Operands& operands, Decoder& decoder,
                 NumberType type) {
  const std::string_view name = opcode.name();
  Handler handler = nullptr;
  size_t sources = 2;
  Cost cost = IntegerCost(type, 1, 2);
  const bool high = opcode.Has("hi");
  if (opcode.Has("wide")) {
    const bool adds = name == "mad";
    switch (type) {
      case NumberType::kU16:
        handler = adds ? MultiplyWide<uint16_t, true> : MultiplyWide<uint16_t, false>;
        break;
      case NumberType::kS16:
        handler = adds ? MultiplyWide<int16_t, true> : MultiplyWide<int16_t, false>;
        break;
      case NumberType::kU32:
        handler = adds ? MultiplyWide<uint32_t, true> : MultiplyWide<uint32_t, false>;
        break;
      case NumberType::kS32:
        handler = adds ? MultiplyWide<int32_t, true> : MultiplyWide<int32_t, false>;
        break;
      default: return Refuse(decoder, "not known");
    }
    const SlotClass wide = BytesOf(type) == 2 ? kWord : kLong;
    if (operands.size() < (adds ? 4U : 3U)) return Refuse(decoder, "too few operands");
    decoder.Write(operands[0], wide);
    decoder.Read(operands[1], kWord);
    decoder.Read(operands[2], kWord);
    if (adds) decoder.Read(operands[3], wide);
    return Set(decoder, handler, {Kind::kInteger, Pipe::kInteger, 1, 5});
  }
  switch (ArithmeticOf(name)) {
    case Arithmetic::kAdd: handler = KC_BY_INTEGER(Binary, Add); break;
    case Arithmetic::kSub: handler = KC_BY_INTEGER(Binary, Sub); break;
    case Arithmetic::kMul:
      handler = high ? KC_BY_INTEGER(Binary, MulHigh) : KC_BY_INTEGER(Binary, Mul);
      cost = IntegerCost(type, high ? 2 : 1, 4);
      break;
    case Arithmetic::kMin:
      handler = KC_BY_INTEGER(Binary, Min);
      cost = IntegerCost(type, 1, 4);
      break;
    case Arithmetic::kMax:
      handler = KC_BY_INTEGER(Binary, Max);
      cost = IntegerCost(type, 1, 4);
      break;
    case Arithmetic::kFma:
      handler = high ? KC_BY_INTEGER(Ternary, MadHigh) : KC_BY_INTEGER(Ternary, Mad);
      sources = 3;
      cost = IntegerCost(type, high ? 2 : 1, 4);
      break;
    case Arithmetic::kNeg:
      handler = KC_BY_INTEGER(Unary, Neg);
      sources = 1;
      break;
    case Arithmetic::kAbs:
      handler = KC_BY_INTEGER(Unary, Abs);
      sources = 1;
      break;
    case Arithmetic::kNone: break;
  }
  if (name == "div" || name == "rem") {
    handler = name == "div" ? KC_BY_INTEGER(Binary, Div) : KC_BY_INTEGER(Binary, Rem);
    cost = IntegerCost(type, 22, 80);
    // Division by a constant becomes a multiplication and a shift.
    if (operands.size() > 2 && operands[2].type == Operand::Type::kImmediate) {
      cost = IntegerCost(type, std::has_single_bit(operands[2].bits) ? 2 : 4, 12);
    }
    cost.latency = cost.issue * 4;
  } else if (name == "sad") {
    handler = KC_BY_INTEGER(Ternary, Sad);
    sources = 3;
  }
  if (opcode.Has("relu")) {
    // Only for min and max.
    handler = type != NumberType::kS32 ? nullptr
              : name == "min"          ? Binary<IntegerType<int32_t>, ReluMin>
              : name == "max"          ? Binary<IntegerType<int32_t>, ReluMax>
                                       : nullptr;
  }
  if (opcode.Has("sat")) {
    handler = type != NumberType::kS32 ? nullptr
              : name == "add"          ? Binary<IntegerType<int32_t>, SaturatedAdd>
              : name == "sub"          ? Binary<IntegerType<int32_t>, SaturatedSub>
              : name == "mad" && high  ? Ternary<IntegerType<int32_t>, SaturatedMadHigh>
                                       : nullptr;
  }
  if (handler == nullptr) return Refuse(decoder, "not known");
  Elementwise(decoder, operands, ClassFor(type), sources);
  return Set(decoder, handler, cost);
}

bool BindCarry(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  const NumberType type = NumberTypeOf(opcode.type());
  if (IsReal(type) || BytesOf(type) < 4) return Refuse(decoder, "not known");
  Instruction& i = decoder.instruction();
  const bool multiplies = name == "mad" || name == "madc";
  const bool reads = name == "addc" || name == "subc" || name == "madc";
  const size_t sources = multiplies ? 3 : 2;
  if (operands.size() < sources + 1) return Refuse(decoder, "too few operands");
  i.detail =
      static_cast<uint8_t>((reads ? 1 : 0) | (opcode.Has("cc") ? 2 : 0) | (multiplies ? 4 : 0) |
                           (opcode.Has("hi") ? 8 : 0) | (name == "sub" || name == "subc" ? 16 : 0) |
                           (IsSigned(type) ? 32 : 0));
  decoder.Write(operands[0], ClassFor(type));
  for (size_t k = 1; k <= sources; ++k) decoder.Read(operands[k], ClassFor(type));
  decoder.ReadCarry();
  Cost cost{Kind::kInteger, Pipe::kInteger, 1, 5};
  if (BytesOf(type) == 8) cost.issue = multiplies ? 4 : 2;
  return Set(decoder, BytesOf(type) == 8 ? WithCarry<uint64_t> : WithCarry<uint32_t>, cost);
}

}  // namespace kernelcast::worker::virtual_gpu
