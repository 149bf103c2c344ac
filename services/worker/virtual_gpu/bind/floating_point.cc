#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>

#include "services/worker/virtual_gpu/bind/arithmetic.h"
#include "services/worker/virtual_gpu/bind/elementwise.h"
#include "services/worker/virtual_gpu/bind/numbers.h"
#include "services/worker/virtual_gpu/bind/operations.h"

// Floating-point arithmetic and special functions, with rounding modes and clamps.

namespace kernelcast::worker::virtual_gpu {
namespace {

// NaN if either operand is.
struct StrictMin {
  template <class V>
  static V Of(V a, V b) {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<V>::quiet_NaN() : std::fmin(a, b);
  }
};
struct StrictMax {
  template <class V>
  static V Of(V a, V b) {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<V>::quiet_NaN() : std::fmax(a, b);
  }
};
// The operation on the absolute values, with the exclusive or of the signs.
template <class Operation>
struct XorSign {
  static float Of(float a, float b) {
    const float value = Operation::Of(std::fabs(a), std::fabs(b));
    return std::signbit(a) == std::signbit(b) ? value : -value;
  }
};
struct Reciprocal {
  template <class V>
  static V Of(V a) {
    return 1 / a;
  }
};
struct SquareRoot {
  template <class V>
  static V Of(V a) {
    return std::sqrt(a);
  }
};
struct ReciprocalRoot {
  template <class V>
  static V Of(V a) {
    return 1 / std::sqrt(a);
  }
};
struct PowerOfTwo {
  static float Of(float a) { return std::exp2(a); }
};
struct LogOfTwo {
  static float Of(float a) { return std::log2(a); }
};
struct Sine {
  static float Of(float a) { return std::isfinite(a) ? std::sin(a) : a; }
};
struct Cosine {
  static float Of(float a) { return std::isfinite(a) ? std::cos(a) : a; }
};
struct Tangent {
  static float Of(float a) { return std::tanh(a); }
};
struct CopySign {
  template <class V>
  static V Of(V a, V b) {
    return std::copysign(b, a);
  }
};

Cost RealCost(NumberType type) {
  switch (type) {
    case NumberType::kF64: return {Kind::kFloat64, Pipe::kFloat64, 1, 8};
    case NumberType::kF16:
    case NumberType::kBf16: return {Kind::kHalf, Pipe::kHalf, 1, 5};
    default: return {Kind::kFloat32, Pipe::kFloat32, 1, 4};
  }
}

constexpr uint8_t kClampsToOne = 4;
constexpr uint8_t kClampsBelow = 8;
constexpr uint8_t kModifiesPair = 16;

// Executes the handler stored in `immediate`, with the rounding mode in the low bits of `code`, and
// clamps.
void Modified(Warp& w, const Instruction& i) {
  const auto handler = reinterpret_cast<Handler>(i.immediate);
  const int mode = kRoundingModes[i.code & 3];
  if (mode != FE_TONEAREST) std::fesetround(mode);
  handler(w, i);
  if (mode != FE_TONEAREST) std::fesetround(FE_TONEAREST);
  if ((i.code & (kClampsToOne | kClampsBelow)) == 0) return;
  const auto type = static_cast<NumberType>(i.detail);
  const uint16_t slot = w.operands(i)[0];
  const auto clamp = [&](uint64_t bits) {
    const double value = DecodeNumber(type, bits);
    if ((i.code & kClampsToOne) != 0) {
      return EncodeNumber(type, std::isnan(value) ? 0 : std::clamp(value, 0.0, 1.0));
    }
    return value < 0 ? uint64_t{0} : bits;
  };
  ForLanes(w.active, [&](int l) {
    const uint64_t bits = ReadLane(w, slot, l);
    WriteLane(w, slot, l,
              (i.code & kModifiesPair) != 0
                  ? clamp(bits >> 16 & 0xffff) << 16 | clamp(bits & 0xffff)
                  : clamp(bits));
  });
}

// Handles rounding modes other than to nearest, ".sat" and ".relu" of floating-point arithmetic.
bool Modify(const Opcode& opcode, NumberType type, bool pair, Decoder& decoder) {
  Instruction& i = decoder.instruction();
  const uint8_t code =
      static_cast<uint8_t>(RoundingOf(opcode) | (opcode.Has("sat") ? kClampsToOne : 0) |
                           (opcode.Has("relu") ? kClampsBelow : 0));
  if (code == 0) return true;
  i.code = code | (pair ? kModifiesPair : 0);
  i.detail = static_cast<uint8_t>(type);
  i.immediate = reinterpret_cast<int64_t>(i.execute);
  i.execute = Modified;
  return true;
}

void CountFlops(Instruction& i, NumberType type, Arithmetic arithmetic, int pair) {
  if (arithmetic == Arithmetic::kNeg || arithmetic == Arithmetic::kAbs) return;
  i.flops = (arithmetic == Arithmetic::kFma ? 2 : 1) * pair;
  i.matrix = type == NumberType::kF64   ? MatrixType::kFloat64
             : type == NumberType::kF32 ? MatrixType::kTf32
                                        : MatrixType::kHalf;
}

// "testp.notanumber" and similar; `code` selects the test.
template <class T>
void TestNumber(Warp& w, const Instruction& i) {
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  uint32_t result = 0;
  ForLanes(w.active, [&](int l) {
    const auto value = T::Get(a, l);
    bool is = false;
    switch (i.code) {
      case 0: is = std::isfinite(value); break;
      case 1: is = std::isinf(value); break;
      case 2: is = !std::isnan(value); break;
      case 3: is = std::isnan(value); break;
      case 4: is = std::isnormal(value); break;
      default: is = std::fpclassify(value) == FP_SUBNORMAL;
    }
    result |= static_cast<uint32_t>(is) << l;
  });
  uint32_t& p = w.predicate(i, 0);
  p = (p & ~w.active) | (result & w.active);
}

}  // namespace

bool BindReal(const Opcode& opcode, const Operands& operands, Decoder& decoder,
              Arithmetic arithmetic, NumberType type) {
  const bool strict = opcode.Has("NaN");
  const bool xor_sign = opcode.Has("xorsign");
  if (xor_sign && (type != NumberType::kF32 || !opcode.Has("abs"))) {
    return Refuse(decoder, "not known");
  }
  Handler handler = nullptr;
  size_t sources = 2;
  switch (arithmetic) {
    case Arithmetic::kAdd: handler = KC_BY_REAL(Binary, Add); break;
    case Arithmetic::kSub: handler = KC_BY_REAL(Binary, Sub); break;
    case Arithmetic::kMul: handler = KC_BY_REAL(Binary, Mul); break;
    case Arithmetic::kMin:
      handler = strict ? KC_BY_REAL(Binary, StrictMin) : KC_BY_REAL(Binary, Min);
      if (xor_sign) {
        handler = strict ? Handler(Binary<Float32Type, XorSign<StrictMin>>)
                         : Handler(Binary<Float32Type, XorSign<Min>>);
      }
      break;
    case Arithmetic::kMax:
      handler = strict ? KC_BY_REAL(Binary, StrictMax) : KC_BY_REAL(Binary, Max);
      if (xor_sign) {
        handler = strict ? Handler(Binary<Float32Type, XorSign<StrictMax>>)
                         : Handler(Binary<Float32Type, XorSign<Max>>);
      }
      break;
    case Arithmetic::kFma:
      handler = KC_BY_REAL(Ternary, Mad);
      sources = 3;
      break;
    case Arithmetic::kNeg:
      handler = KC_BY_REAL(Unary, Neg);
      sources = 1;
      break;
    case Arithmetic::kAbs:
      handler = KC_BY_REAL(Unary, Abs);
      sources = 1;
      break;
    case Arithmetic::kNone: break;
  }
  if (handler == nullptr) return Refuse(decoder, "not known");
  Elementwise(decoder, operands, ClassFor(type), sources);
  CountFlops(decoder.instruction(), type, arithmetic, 1);
  Cost cost = RealCost(type);
  // Negation and absolute value are operand modifiers.
  if (sources == 1) cost.issue = 0.3F;
  return Set(decoder, handler, cost) && Modify(opcode, type, false, decoder);
}

bool BindPacked(const Opcode& opcode, const Operands& operands, Decoder& decoder,
                Arithmetic arithmetic, bool brain) {
  const bool strict = opcode.Has("NaN");
  if (opcode.Has("xorsign")) return Refuse(decoder, "not known");
#define KC_PACKED(Op, N) (brain ? Handler(Packed<true, Op, N>) : Handler(Packed<false, Op, N>))
  Handler handler = nullptr;
  size_t sources = 2;
  switch (arithmetic) {
    case Arithmetic::kAdd: handler = KC_PACKED(Add, 2); break;
    case Arithmetic::kSub: handler = KC_PACKED(Sub, 2); break;
    case Arithmetic::kMul: handler = KC_PACKED(Mul, 2); break;
    case Arithmetic::kMin: handler = strict ? KC_PACKED(StrictMin, 2) : KC_PACKED(Min, 2); break;
    case Arithmetic::kMax: handler = strict ? KC_PACKED(StrictMax, 2) : KC_PACKED(Max, 2); break;
    case Arithmetic::kFma:
      handler = KC_PACKED(Mad, 3);
      sources = 3;
      break;
    case Arithmetic::kNeg:
      handler = KC_PACKED(Neg, 1);
      sources = 1;
      break;
    case Arithmetic::kAbs:
      handler = KC_PACKED(Abs, 1);
      sources = 1;
      break;
    case Arithmetic::kNone: return Refuse(decoder, "not known");
  }
#undef KC_PACKED
  Elementwise(decoder, operands, kWord, sources);
  CountFlops(decoder.instruction(), NumberType::kF16, arithmetic, 2);
  return Set(decoder, handler, {Kind::kHalf, Pipe::kHalf, 1, 5}) &&
         Modify(opcode, brain ? NumberType::kBf16 : NumberType::kF16, true, decoder);
}

bool BindDivision(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const NumberType type = NumberTypeOf(opcode.type());
  if (!IsReal(type)) return BindArithmetic(opcode, operands, decoder);
  const Handler handler = KC_BY_REAL(Binary, Div);
  if (handler == nullptr) return Refuse(decoder, "not known");
  Elementwise(decoder, operands, ClassFor(type), 2);
  decoder.instruction().flops = 1;
  const bool approximate = opcode.Has("approx") || opcode.Has("full");
  Cost cost{Kind::kSpecial, Pipe::kSpecial, approximate ? 4.0F : 11.0F,
            approximate ? 28.0F : 60.0F};
  if (type == NumberType::kF64) cost = {Kind::kFloat64, Pipe::kFloat64, 12, 80};
  return Set(decoder, handler, cost) && Modify(opcode, type, false, decoder);
}

bool BindCopySign(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const NumberType type = NumberTypeOf(opcode.type());
  const Handler handler = type == NumberType::kF32   ? Binary<Float32Type, CopySign>
                          : type == NumberType::kF64 ? Binary<Float64Type, CopySign>
                                                     : nullptr;
  if (handler == nullptr) return Refuse(decoder, "not known");
  Elementwise(decoder, operands, ClassFor(type), 2);
  // A bitwise selection in each word.
  return Set(decoder, handler,
             {Kind::kInteger, Pipe::kInteger, 1, type == NumberType::kF64 ? 6.0F : 5.0F});
}

bool BindSpecial(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  const NumberType type = NumberTypeOf(opcode.type());
  const bool approximate = opcode.Has("approx") || opcode.Has("full");
  const bool flushes = opcode.Has("ftz");
  // Without ".ftz" small numbers are scaled before and after.
  Cost cost{Kind::kSpecial, Pipe::kSpecial, flushes ? 1.0F : 2.0F, flushes ? 22.0F : 38.0F};
  Handler handler = nullptr;
  if (name == "rcp") handler = KC_BY_REAL(Unary, Reciprocal);
  if (name == "sqrt") handler = KC_BY_REAL(Unary, SquareRoot);
  if (name == "rsqrt") handler = KC_BY_REAL(Unary, ReciprocalRoot);
  if (type == NumberType::kF32) {
    if (name == "ex2") handler = Unary<Float32Type, PowerOfTwo>;
    if (name == "lg2") handler = Unary<Float32Type, LogOfTwo>;
    if (name == "sin") handler = Unary<Float32Type, Sine>;
    if (name == "cos") handler = Unary<Float32Type, Cosine>;
    if (name == "tanh") handler = Unary<Float32Type, Tangent>;
  } else if (type == NumberType::kF16) {
    if (name == "ex2") handler = Unary<HalfType<false>, PowerOfTwo>;
    if (name == "tanh") handler = Unary<HalfType<false>, Tangent>;
  } else if (type == NumberType::kBf16) {
    if (name == "ex2") handler = Unary<HalfType<true>, PowerOfTwo>;
    if (name == "tanh") handler = Unary<HalfType<true>, Tangent>;
  } else if (opcode.type() == "f16x2") {
    if (name == "ex2") handler = Packed<false, PowerOfTwo, 1>;
    if (name == "tanh") handler = Packed<false, Tangent, 1>;
  } else if (opcode.type() == "bf16x2") {
    if (name == "ex2") handler = Packed<true, PowerOfTwo, 1>;
    if (name == "tanh") handler = Packed<true, Tangent, 1>;
  }
  if (handler == nullptr) return Refuse(decoder, "not known");
  Elementwise(decoder, operands, ClassFor(type == NumberType::kNone ? NumberType::kU32 : type), 1);
  decoder.instruction().flops = 1;
  if (!approximate && (name == "rcp" || name == "sqrt" || name == "rsqrt")) {
    cost.issue = 8;
    cost.latency = 58;
    if (type == NumberType::kF64) cost = {Kind::kFloat64, Pipe::kFloat64, 12, 80};
  }
  return Set(decoder, handler, cost) &&
         (type == NumberType::kNone || Modify(opcode, type, false, decoder));
}

bool BindTest(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  constexpr std::string_view kTests[] = {"finite",     "infinite", "number",
                                         "notanumber", "normal",   "subnormal"};
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  const NumberType type = NumberTypeOf(opcode.type());
  for (size_t k = 0; k < std::size(kTests); ++k) {
    if (!opcode.Has(kTests[k]) || (type != NumberType::kF32 && type != NumberType::kF64)) continue;
    decoder.instruction().code = static_cast<uint8_t>(k);
    decoder.Write(operands[0], kPredicate);
    decoder.Read(operands[1], ClassFor(type));
    return Set(decoder,
               type == NumberType::kF64 ? TestNumber<Float64Type> : TestNumber<Float32Type>,
               {Kind::kPredicate, Pipe::kInteger, 2, 8});
  }
  return Refuse(decoder, "not known");
}

}  // namespace kernelcast::worker::virtual_gpu
