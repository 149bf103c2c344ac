#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "services/worker/virtual_gpu/bind/elementwise.h"
#include "services/worker/virtual_gpu/bind/numbers.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

double Round(uint8_t rounding, double value) {
  switch (rounding) {
    case kZero: return std::trunc(value);
    case kDown: return std::floor(value);
    case kUp: return std::ceil(value);
    default: return std::nearbyint(value);
  }
}

int64_t SignExtend(uint64_t bits, int bytes) {
  const int unused = 64 - 8 * bytes;
  return static_cast<int64_t>(bits << unused) >> unused;
}

// code: the result type; detail: the source type; bytes: rounding mode, with these flags.
constexpr uint8_t kSaturates = 16;
constexpr uint8_t kToIntegral = 32;
constexpr uint8_t kClampsNegative = 64;

// Returns the next half-precision number in magnitude, away from or towards zero.
uint16_t Neighbour(uint16_t bits, bool away) {
  const uint16_t sign = bits & 0x8000;
  const auto magnitude = static_cast<uint16_t>(bits & 0x7fff);
  if (!away && magnitude == 0) return static_cast<uint16_t>((sign ^ 0x8000) | 1);
  return static_cast<uint16_t>(sign | (away ? magnitude + 1 : magnitude - 1));
}

// Rounds in the given mode. To nearest it is EncodeNumber.
uint64_t EncodeRounded(NumberType type, uint8_t rounding, double value) {
  const uint64_t nearest = EncodeNumber(type, value);
  if (rounding == kNearest || !std::isfinite(value) || BytesOf(type) == 8) return nearest;
  const double made = DecodeNumber(type, nearest);
  const bool down = rounding == kDown || (rounding == kZero && value > 0);
  if (BytesOf(type) == 4) {
    auto result = static_cast<float>(made);
    if (down && made > value) result = std::nextafterf(result, -INFINITY);
    if (!down && made < value) result = std::nextafterf(result, INFINITY);
    return std::bit_cast<uint32_t>(result);
  }
  const auto bits = static_cast<uint16_t>(nearest);
  if (down && made > value) return Neighbour(bits, made <= 0);
  if (!down && made < value) return Neighbour(bits, made >= 0);
  return nearest;
}

// Avoids double rounding if the type has fewer digits than a double.
template <class V>
uint64_t EncodeInteger(NumberType type, uint8_t rounding, V value) {
  if (rounding == kNearest && type == NumberType::kF32) {
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  if (rounding == kNearest || type == NumberType::kF64) {
    if (rounding != kNearest) std::fesetround(kRoundingModes[rounding]);
    volatile V source = value;
    const auto made = static_cast<double>(source);
    std::fesetround(FE_TONEAREST);
    return EncodeNumber(type, made);
  }
  // Magnitudes beyond 2^53 are truncated with a sticky bit, which does not affect narrow types.
  constexpr auto kExact = V{1} << 53;
  auto exact = value;
  if (exact > kExact || (std::is_signed_v<V> && exact < V{0} - kExact)) {
    exact = static_cast<V>((exact & ~V{0xfff}) | ((exact & V{0xfff}) != 0 ? V{0x800} : V{0}));
  }
  return EncodeRounded(type, rounding, static_cast<double>(exact));
}

// Clamps an integer to the range of another type. `whole` has the bits of an unsigned long.
int64_t Clamp(NumberType from, NumberType to, int64_t whole) {
  const __int128 exact =
      from == NumberType::kU64 ? __int128{static_cast<uint64_t>(whole)} : __int128{whole};
  const int bits = 8 * BytesOf(to) - (IsSigned(to) ? 1 : 0);
  const __int128 high = (__int128{1} << bits) - 1;
  const __int128 low = IsSigned(to) ? -high - 1 : 0;
  return static_cast<int64_t>(exact > high ? high : exact < low ? low : exact);
}

void Convert(Warp& w, const Instruction& i) {
  const auto to = static_cast<NumberType>(i.code);
  const auto from = static_cast<NumberType>(i.detail);
  const uint16_t* operands = w.operands(i);
  const bool saturates = (i.bytes & kSaturates) != 0;
  const uint8_t rounding = i.bytes & 15;
  const int to_bytes = BytesOf(to);
  const uint64_t keep = to_bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * to_bytes)) - 1;
  ForLanes(w.active, [&](int l) {
    const uint64_t bits = ReadLane(w, operands[1], l);
    uint64_t result = 0;
    if (!IsReal(from)) {
      const int64_t whole =
          IsSigned(from) ? SignExtend(bits, BytesOf(from))
          : BytesOf(from) == 8
              ? static_cast<int64_t>(bits)
              : static_cast<int64_t>(bits & ((uint64_t{1} << (8 * BytesOf(from))) - 1));
      if (IsReal(to)) {
        result = from == NumberType::kU64 ? EncodeInteger(to, rounding, bits)
                                          : EncodeInteger(to, rounding, whole);
      } else {
        result = static_cast<uint64_t>(saturates ? Clamp(from, to, whole) : whole) & keep;
        // A wider register is sign-extended.
        if (IsSigned(to) && w.kernel->slots[operands[0]].kind == SlotClass::kLong) {
          result = static_cast<uint64_t>(SignExtend(result, to_bytes));
        } else if (IsSigned(to) && to_bytes < 4) {
          result = static_cast<uint32_t>(SignExtend(result, to_bytes));
        }
      }
    } else {
      double value = DecodeNumber(from, bits);
      if (!IsReal(to)) {
        value = Round(rounding, value);
        const double high =
            IsSigned(to) ? std::ldexp(1.0, 8 * to_bytes - 1) : std::ldexp(1.0, 8 * to_bytes);
        const double low = IsSigned(to) ? -high : 0;
        if (std::isnan(value)) {
          const bool zero = from != NumberType::kF64 && to_bytes != 8;
          result = zero ? 0 : uint64_t{1} << (8 * to_bytes - 1);
        } else if (value >= high) {
          result = IsSigned(to) ? keep >> 1 : keep;
        } else if (value <= low) {
          result = IsSigned(to) ? (keep >> 1) + 1 : 0;
        } else {
          result = value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value)) & keep
                             : static_cast<uint64_t>(value);
        }
      } else {
        if ((i.bytes & kToIntegral) != 0) value = Round(rounding, value);
        if (saturates) value = std::isnan(value) ? 0 : std::clamp(value, 0.0, 1.0);
        if ((i.bytes & kClampsNegative) != 0 && value < 0) value = 0;
        result = EncodeRounded(to, rounding, value);
      }
    }
    WriteLane(w, operands[0], l, result);
  });
}

// Conversions of pairs, stored in `code`.
enum PairConversion : uint8_t {
  kHalvesFromFloats,
  kBrainFromFloats,
  kE4m3FromFloats,
  kE5m2FromFloats,
  kHalvesFromE4m3,
  kHalvesFromE5m2,
  kE4m3FromHalves,
  kE5m2FromHalves,
};
void ConvertPair(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  const auto* b = i.reads > 1 ? w.lanes<LaneU32>(i, 2) : a;
  const auto& e4m3_halves = HalvesOfFloat8(false);
  const auto& e5m2_halves = HalvesOfFloat8(true);
  ForLanes(w.active, [&](int l) {
    const float high = std::bit_cast<float>(uint32_t{a[l]});
    const float low = std::bit_cast<float>(uint32_t{b[l]});
    const uint32_t bits = a[l];
    switch (i.code) {
      case kHalvesFromFloats: d[l] = uint32_t{ToHalf(high)} << 16 | ToHalf(low); break;
      case kBrainFromFloats: d[l] = uint32_t{ToBfloat16(high)} << 16 | ToBfloat16(low); break;
      case kE4m3FromFloats:
      case kE5m2FromFloats: {
        const bool wide = i.code == kE5m2FromFloats;
        d[l] = uint32_t{ToFloat8(high, wide)} << 8 | ToFloat8(low, wide);
        break;
      }
      case kHalvesFromE4m3:
      case kHalvesFromE5m2: {
        const auto& halves = i.code == kHalvesFromE5m2 ? e5m2_halves : e4m3_halves;
        d[l] = uint32_t{halves[bits >> 8 & 0xff]} << 16 | halves[bits & 0xff];
        break;
      }
      default: {
        const bool wide = i.code == kE5m2FromHalves;
        d[l] = uint32_t{ToFloat8(FromHalf(static_cast<uint16_t>(bits >> 16)), wide)} << 8 |
               ToFloat8(FromHalf(static_cast<uint16_t>(bits)), wide);
      }
    }
  });
}

bool BindPairConversion(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view to = opcode.parts[opcode.parts.size() - 2];
  const std::string_view from = opcode.type();
  Instruction& i = decoder.instruction();
  size_t sources = 2;
  if (from == "f32") {
    if (to == "f16x2") {
      i.code = kHalvesFromFloats;
    } else if (to == "bf16x2") {
      i.code = kBrainFromFloats;
    } else if (to == "e4m3x2") {
      i.code = kE4m3FromFloats;
    } else if (to == "e5m2x2") {
      i.code = kE5m2FromFloats;
    } else {
      return Refuse(decoder, "not known");
    }
  } else {
    sources = 1;
    if (to == "f16x2" && from == "e4m3x2") {
      i.code = kHalvesFromE4m3;
    } else if (to == "f16x2" && from == "e5m2x2") {
      i.code = kHalvesFromE5m2;
    } else if (to == "e4m3x2" && from == "f16x2") {
      i.code = kE4m3FromHalves;
    } else if (to == "e5m2x2" && from == "f16x2") {
      i.code = kE5m2FromHalves;
    } else {
      return Refuse(decoder, "not known");
    }
  }
  Elementwise(decoder, operands, kWord, sources);
  return Set(decoder, ConvertPair, {Kind::kConversion, Pipe::kConversion, 1, 8});
}

}  // namespace

bool BindConversion(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (opcode.parts.size() < 3 || operands.size() < 2) return Refuse(decoder, "not known");
  const std::string_view to_name = opcode.parts[opcode.parts.size() - 2];
  if (to_name.size() > 2 && to_name.substr(to_name.size() - 2) == "x2") {
    return BindPairConversion(opcode, operands, decoder);
  }
  const NumberType to = NumberTypeOf(to_name);
  const NumberType from = NumberTypeOf(opcode.type());
  if (to == NumberType::kNone || from == NumberType::kNone) return Refuse(decoder, "not known");
  Instruction& i = decoder.instruction();
  i.code = static_cast<uint8_t>(to);
  i.detail = static_cast<uint8_t>(from);
  i.bytes = RoundingOf(opcode);
  if (opcode.Has("relu")) i.bytes |= kClampsNegative;
  if (opcode.Has("sat")) i.bytes |= kSaturates;
  if (opcode.Has("rzi") || opcode.Has("rmi") || opcode.Has("rpi") || opcode.Has("rni")) {
    i.bytes |= kToIntegral;
  }
  // Registers may be wider than the converted value.
  const auto kind_of = [&](const Operand& operand, NumberType type) {
    return BytesOf(type) == 8                         ? kLong
           : operand.type == Operand::Type::kRegister ? decoder.KindOf(operand)
                                                      : kWord;
  };
  decoder.Write(operands[0], kind_of(operands[0], to));
  decoder.Read(operands[1], kind_of(operands[1], from));
  if (decoder.ok() && (decoder.ClassOf(decoder.Sink(kWord)) != kWord)) return false;
  Cost cost{Kind::kConversion, Pipe::kConversion, 1, 10};
  if (!IsReal(to) && !IsReal(from)) {
    // Truncation is free, zero-extension almost free, sign-extension a shift.
    const float issue = BytesOf(to) <= BytesOf(from) ? 0.1F : IsSigned(from) ? 1.0F : 0.25F;
    cost = {Kind::kInteger, Pipe::kInteger, issue, 4};
  } else if (to == NumberType::kF32 && (from == NumberType::kBf16 || from == NumberType::kF16)) {
    cost = {Kind::kConversion, Pipe::kHalf, 1, 5};
  } else if (to == NumberType::kF32 && from == NumberType::kF32) {
    cost = {Kind::kFloat32, Pipe::kFloat32, 1, 5};
  } else if (to == NumberType::kF16 || to == NumberType::kBf16) {
    cost = {Kind::kConversion, Pipe::kHalf, 1, 6};
  }
  return Set(decoder, Convert, cost);
}

}  // namespace kernelcast::worker::virtual_gpu
