#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "services/worker/cuda/ptx/binding.h"

// Instructions used by the math library and device functions that are not in instructions.cc.

namespace kernelcast::worker::ptx {
namespace {

constexpr Cost kIntegerCost{Kind::kInteger, Pipe::kInteger, 1, 5};

// --- Carries -------------------------------------------------------------------------------------

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
  Cost cost = kIntegerCost;
  if (BytesOf(type) == 8) cost.issue = multiplies ? 4 : 2;
  return Set(decoder, BytesOf(type) == 8 ? WithCarry<uint64_t> : WithCarry<uint32_t>, cost);
}

// --- Dot products and video instructions ---------------------------------------------------------

// detail: 1 and 2: signed factors; 4: dp2a; 8: its high half.
void DotProduct(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  const auto* c = w.lanes<LaneU32>(i, 3);
  const bool halves = (i.detail & 4) != 0;
  const auto part = [](uint32_t word, int index, int bits, bool is_signed) {
    const uint32_t value = word >> (index * bits) & ((uint32_t{1} << bits) - 1);
    return is_signed ? static_cast<int32_t>(value << (32 - bits)) >> (32 - bits)
                     : static_cast<int32_t>(value);
  };
  ForLanes(w.active, [&](int l) {
    int64_t sum = static_cast<int32_t>(c[l]);
    for (int k = 0; k < (halves ? 2 : 4); ++k) {
      const int at = halves && (i.detail & 8) != 0 ? k + 2 : k;
      sum += int64_t{part(a[l], k, halves ? 16 : 8, (i.detail & 1) != 0)} *
             part(b[l], at, 8, (i.detail & 2) != 0);
    }
    d[l] = static_cast<uint32_t>(sum);
  });
}

bool BindDotProduct(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  if (operands.size() < 4 || opcode.parts.size() < 3) return Refuse(decoder, "too few operands");
  Instruction& i = decoder.instruction();
  decoder.Write(operands[0], kWord);
  for (size_t k = 1; k <= 3; ++k) decoder.Read(operands[k], kWord);
  i.detail = static_cast<uint8_t>((opcode.parts[opcode.parts.size() - 2] == "s32" ? 1 : 0) |
                                  (opcode.type() == "s32" ? 2 : 0) |
                                  (opcode.name() == "dp2a" ? 4 : 0) | (opcode.Has("hi") ? 8 : 0));
  return Set(decoder, DotProduct, kIntegerCost);
}

enum Video : uint8_t {
  kVideoAdd,
  kVideoSub,
  kVideoDifference,
  kVideoAverage,
  kVideoMin,
  kVideoMax
};

// "vabsdiff4" and similar, on two halves or four bytes. detail: 1: bytes; 2: signed sources; 4:
// saturates; 8: sums up and adds the third source.
void VideoParts(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  const auto* c = w.lanes<LaneU32>(i, 3);
  const int bits = (i.detail & 1) != 0 ? 8 : 16;
  const bool is_signed = (i.detail & 2) != 0;
  const int32_t high = (1 << (is_signed ? bits - 1 : bits)) - 1;
  const int32_t low = is_signed ? -high - 1 : 0;
  const uint32_t keep = (uint32_t{1} << bits) - 1;
  ForLanes(w.active, [&](int l) {
    uint32_t packed = 0;
    uint32_t sum = c[l];
    for (int at = 0; at < 32; at += bits) {
      const auto part = [&](uint32_t word) {
        const uint32_t value = word >> at & keep;
        return is_signed ? static_cast<int32_t>(value << (32 - bits)) >> (32 - bits)
                         : static_cast<int32_t>(value);
      };
      const int32_t x = part(a[l]);
      const int32_t y = part(b[l]);
      int32_t value = 0;
      switch (i.code) {
        case kVideoAdd: value = x + y; break;
        case kVideoSub: value = x - y; break;
        case kVideoDifference: value = x < y ? y - x : x - y; break;
        case kVideoAverage: value = (x + y + (x + y >= 0 ? 1 : 0)) >> 1; break;
        case kVideoMin: value = std::min(x, y); break;
        default: value = std::max(x, y);
      }
      if ((i.detail & 4) != 0) value = std::clamp(value, low, high);
      packed |= (static_cast<uint32_t>(value) & keep) << at;
      sum += static_cast<uint32_t>(value);
    }
    d[l] = (i.detail & 8) != 0 ? sum : packed;
  });
}

bool BindVideo(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  constexpr std::pair<std::string_view, Video> kNames[] = {
      {"vadd", kVideoAdd},      {"vsub", kVideoSub}, {"vabsdiff", kVideoDifference},
      {"vavrg", kVideoAverage}, {"vmin", kVideoMin}, {"vmax", kVideoMax}};
  const std::string_view name = opcode.name();
  const char width = name.back();
  Instruction& i = decoder.instruction();
  bool found = false;
  for (const auto& [text, code] : kNames) {
    if (name.substr(0, name.size() - 1) == text) {
      i.code = code;
      found = true;
    }
  }
  // Types of the result and of both sources.
  if (!found || operands.size() < 4 || opcode.parts.size() < 4 ||
      opcode.parts[2] != opcode.parts[3]) {
    return Refuse(decoder, "not known");
  }
  for (size_t k = 1; k <= 3; ++k) {
    if (operands[k].type == Operand::Type::kVector) return Refuse(decoder, "not known");
  }
  i.detail = static_cast<uint8_t>((width == '4' ? 1 : 0) | (opcode.parts[2] == "s32" ? 2 : 0) |
                                  (opcode.Has("sat") ? 4 : 0) | (opcode.Has("add") ? 8 : 0));
  decoder.Write(operands[0], kWord);
  for (size_t k = 1; k <= 3; ++k) decoder.Read(operands[k], kWord);
  return Set(decoder, VideoParts, {Kind::kInteger, Pipe::kInteger, 2, 10});
}

// --- Pairs of short integers ---------------------------------------------------------------------

enum ShortOperation : uint8_t { kShortAdd, kShortSub, kShortMin, kShortMax, kShortNeg, kShortAbs };

// detail: 1: signed; 2: negative results become 0.
void ShortPair(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  const auto* b = i.reads > 1 ? w.lanes<LaneU32>(i, 2) : a;
  const bool is_signed = (i.detail & 1) != 0;
  ForLanes(w.active, [&](int l) {
    uint32_t packed = 0;
    for (int at = 0; at < 32; at += 16) {
      const auto part = [&](uint32_t word) {
        const auto bits = static_cast<uint16_t>(word >> at);
        return is_signed ? int32_t{static_cast<int16_t>(bits)} : int32_t{bits};
      };
      const int32_t x = part(a[l]);
      const int32_t y = part(b[l]);
      int32_t value = 0;
      switch (i.code) {
        case kShortAdd: value = x + y; break;
        case kShortSub: value = x - y; break;
        case kShortMin: value = std::min(x, y); break;
        case kShortMax: value = std::max(x, y); break;
        case kShortNeg: value = -x; break;
        default: value = x < 0 ? -x : x;
      }
      if ((i.detail & 2) != 0) value = std::max(value, 0);
      packed |= (static_cast<uint32_t>(value) & 0xffff) << at;
    }
    d[l] = packed;
  });
}

bool BindShortPair(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  constexpr std::pair<std::string_view, ShortOperation> kNames[] = {
      {"add", kShortAdd}, {"sub", kShortSub}, {"min", kShortMin},
      {"max", kShortMax}, {"neg", kShortNeg}, {"abs", kShortAbs}};
  Instruction& i = decoder.instruction();
  for (const auto& [text, code] : kNames) {
    if (opcode.name() != text) continue;
    const size_t sources = code >= kShortNeg ? 1 : 2;
    if (operands.size() < sources + 1) return Refuse(decoder, "too few operands");
    i.code = code;
    i.detail = static_cast<uint8_t>((opcode.Has("s16x2") ? 1 : 0) | (opcode.Has("relu") ? 2 : 0));
    decoder.Write(operands[0], kWord);
    for (size_t k = 1; k <= sources; ++k) decoder.Read(operands[k], kWord);
    return Set(decoder, ShortPair, kIntegerCost);
  }
  return Refuse(decoder, "not known");
}

// --- Comparisons with numeric results ------------------------------------------------------------

double PartOf(NumberType type, uint64_t bits) {
  switch (type) {
    case NumberType::kF16: return FromHalf(static_cast<uint16_t>(bits));
    case NumberType::kBf16: return FromBfloat16(static_cast<uint16_t>(bits));
    case NumberType::kF32: return std::bit_cast<float>(static_cast<uint32_t>(bits));
    default: return std::bit_cast<double>(bits);
  }
}

uint32_t TrueOf(NumberType type) {
  switch (type) {
    case NumberType::kF16: return 0x3c00;
    case NumberType::kBf16: return 0x3f80;
    case NumberType::kF32: return 0x3f800000;
    default: return 0xffffffff;
  }
}

constexpr uint8_t kUnorderedSet = 1;
constexpr uint8_t kPairSet = 2;

// "set" on floating-point numbers and pairs. immediate: the value for true of one part; bytes: the
// type.
void SetNumber(Warp& w, const Instruction& i) {
  const auto type = static_cast<NumberType>(i.bytes);
  const uint16_t* operands = w.operands(i);
  const bool pair = (i.detail & kPairSet) != 0;
  const auto is = static_cast<uint32_t>(i.immediate);
  ForLanes(w.active, [&](int l) {
    const uint64_t a = ReadLane(w, operands[1], l);
    const uint64_t b = ReadLane(w, operands[2], l);
    uint32_t result = 0;
    for (int at = 0; at < (pair ? 32 : 1); at += 16) {
      if (Compares(i.code, (i.detail & kUnorderedSet) != 0, PartOf(type, a >> at),
                   PartOf(type, b >> at))) {
        result |= pair ? (is & 0xffff) << at : is;
      }
    }
    WriteLane(w, operands[0], l, result);
  });
}

// "setp" on pairs: one predicate per half.
void SetPairPredicates(Warp& w, const Instruction& i) {
  const auto type = static_cast<NumberType>(i.bytes);
  const auto* a = w.lanes<LaneU32>(i, i.writes);
  const auto* b = w.lanes<LaneU32>(i, i.writes + 1);
  for (int k = 0; k < i.writes; ++k) {
    uint32_t result = 0;
    ForLanes(w.active, [&](int l) {
      const bool holds = Compares(i.code, (i.detail & kUnorderedSet) != 0,
                                  PartOf(type, a[l] >> (16 * k)), PartOf(type, b[l] >> (16 * k)));
      result |= static_cast<uint32_t>(holds) << l;
    });
    uint32_t& p = w.predicate(i, k);
    p = (p & ~w.active) | (result & w.active);
  }
}

std::optional<std::pair<uint8_t, bool>> RealComparison(std::string_view name) {
  constexpr std::pair<std::string_view, uint8_t> kNames[] = {
      {"eq", kEq}, {"ne", kNe}, {"lt", kLt},      {"le", kLe},
      {"gt", kGt}, {"ge", kGe}, {"num", kNumber}, {"nan", kNaN}};
  for (const auto& [text, code] : kNames) {
    if (name == text) return std::pair(code, false);
    if (name.size() == 3 && name.back() == 'u' && name.substr(0, 2) == text) {
      return std::pair(code, true);
    }
  }
  return std::nullopt;
}

bool BindRealSet(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  std::string_view source = opcode.type();
  const bool pair = source == "f16x2" || source == "bf16x2";
  const NumberType type =
      pair ? (source == "f16x2" ? NumberType::kF16 : NumberType::kBf16) : NumberTypeOf(source);
  const auto comparison = opcode.parts.size() > 2 ? RealComparison(opcode.parts[1]) : std::nullopt;
  if (!IsReal(type) || !comparison || operands.size() != 3) return Refuse(decoder, "not known");
  Instruction& i = decoder.instruction();
  i.code = comparison->first;
  i.detail = static_cast<uint8_t>((comparison->second ? kUnorderedSet : 0) | (pair ? kPairSet : 0));
  i.bytes = static_cast<uint8_t>(type);
  const Cost cost{Kind::kPredicate, pair ? Pipe::kHalf : Pipe::kFloat32, 1, 6};
  if (opcode.name() == "setp") {
    decoder.Write(operands[0], kPredicate);
    if (operands[0].has_second) decoder.WriteSlot(operands[0].second, kPredicate);
    decoder.Read(operands[1], kWord);
    decoder.Read(operands[2], kWord);
    return Set(decoder, SetPairPredicates, cost);
  }
  const std::string_view made = opcode.parts[opcode.parts.size() - 2];
  const NumberType to = made == "f16x2"    ? NumberType::kF16
                        : made == "bf16x2" ? NumberType::kBf16
                                           : NumberTypeOf(made);
  if (to == NumberType::kNone || BytesOf(to) == 8) return Refuse(decoder, "not known");
  i.immediate = TrueOf(to);
  decoder.Write(operands[0], kWord);
  decoder.Read(operands[1], ClassFor(type));
  decoder.Read(operands[2], ClassFor(type));
  return Set(decoder, SetNumber, cost);
}

// --- Bits and addresses --------------------------------------------------------------------------

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

bool BindOther(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  Instruction& i = decoder.instruction();
  if (operands.size() < 2) return Refuse(decoder, "too few operands");
  if (name == "fns" && operands.size() >= 4) {
    decoder.Write(operands[0], kWord);
    for (size_t k = 1; k <= 3; ++k) decoder.Read(operands[k], kWord);
    return Set(decoder, FindNthSet, {Kind::kInteger, Pipe::kInteger, 40, 200});
  }
  if (name == "isspacep") {
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
  if ((name == "bmsk" || name == "szext") && operands.size() >= 3) {
    i.code = name == "bmsk" ? 0 : 1;
    i.detail = static_cast<uint8_t>((opcode.Has("wrap") ? 1 : 0) | (opcode.Has("s32") ? 2 : 0));
    decoder.Write(operands[0], kWord);
    decoder.Read(operands[1], kWord);
    decoder.Read(operands[2], kWord);
    return Set(decoder, BitMask, kIntegerCost);
  }
  if (name == "testp") {
    constexpr std::string_view kTests[] = {"finite",     "infinite", "number",
                                           "notanumber", "normal",   "subnormal"};
    const NumberType type = NumberTypeOf(opcode.type());
    for (size_t k = 0; k < std::size(kTests); ++k) {
      if (!opcode.Has(kTests[k]) || (type != NumberType::kF32 && type != NumberType::kF64)) {
        continue;
      }
      i.code = static_cast<uint8_t>(k);
      decoder.Write(operands[0], kPredicate);
      decoder.Read(operands[1], ClassFor(type));
      return Set(decoder,
                 type == NumberType::kF64 ? TestNumber<Float64Type> : TestNumber<Float32Type>,
                 {Kind::kPredicate, Pipe::kInteger, 2, 8});
    }
  }
  if (name == "createpolicy") {
    // A cache hint with no effect on values.
    decoder.Write(operands[0], kLong);
    return Set(decoder, [](Warp&, const Instruction&) {}, {Kind::kMove, Pipe::kInteger, 1, 4});
  }
  return Refuse(decoder, "not known");
}

}  // namespace

bool BindMath(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  if (name == "dp2a" || name == "dp4a") return BindDotProduct(opcode, operands, decoder);
  if (name == "set" || name == "setp") return BindRealSet(opcode, operands, decoder);
  if (opcode.type() == "s16x2" || opcode.type() == "u16x2" || opcode.Has("s16x2")) {
    return BindShortPair(opcode, operands, decoder);
  }
  if (opcode.Has("cc") || name == "addc" || name == "subc" || name == "madc") {
    return BindCarry(opcode, operands, decoder);
  }
  if (name.size() > 2 && name[0] == 'v' && (name.back() == '2' || name.back() == '4')) {
    return BindVideo(opcode, operands, decoder);
  }
  return BindOther(opcode, operands, decoder);
}

}  // namespace kernelcast::worker::ptx
