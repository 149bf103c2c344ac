#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "services/worker/virtual_gpu/bind/binding.h"
#include "services/worker/virtual_gpu/bind/elementwise.h"
#include "services/worker/virtual_gpu/bind/numbers.h"

// Comparisons with results in predicates or numbers, and selections.

namespace kernelcast::worker::virtual_gpu {
namespace {

enum Comparison : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kNumber, kNaN };

template <class V>
bool Compares(uint8_t comparison, bool unordered, V a, V b) {
  if constexpr (std::is_floating_point_v<V>) {
    const bool nan = std::isnan(a) || std::isnan(b);
    if (comparison == kNumber) return !nan;
    if (comparison == kNaN) return nan;
    if (nan) return unordered;
  }
  switch (comparison) {
    case kEq: return a == b;
    case kNe: return a != b;
    case kLt: return a < b;
    case kLe: return a <= b;
    case kGt: return a > b;
    default: return a >= b;
  }
}

uint32_t Combine(uint8_t detail, uint32_t result, uint32_t other) {
  switch (detail & 7) {
    case 1: return result & other;
    case 2: return result | other;
    case 3: return result ^ other;
    default: return result;
  }
}

constexpr uint8_t kUnordered = 8;
constexpr uint8_t kNegatedThird = 16;

template <class T>
void SetPredicate(Warp& w, const Instruction& i) {
  const auto* a = w.lanes<typename T::Lane>(i, i.writes);
  const auto* b = w.lanes<typename T::Lane>(i, i.writes + 1);
  uint32_t result = 0;
  const bool unordered = (i.detail & kUnordered) != 0;
  ForLanes(w.active, [&](int l) {
    result |= static_cast<uint32_t>(Compares(i.code, unordered, T::Get(a, l), T::Get(b, l))) << l;
  });
  if constexpr (std::is_integral_v<typename T::Value>) {
    if (i.driver >= 0) {
      DriverValues& driver = w.drivers[static_cast<size_t>(i.driver)];
      driver.seen = true;
      driver.comparison = i.code;
      driver.is_unsigned = std::is_unsigned_v<typename T::Value>;
      ForLanes(w.active, [&](int l) {
        driver.left[static_cast<size_t>(l)] = static_cast<int64_t>(T::Get(a, l));
        driver.right[static_cast<size_t>(l)] = static_cast<int64_t>(T::Get(b, l));
      });
    }
  }
  uint32_t other = i.reads > 2 ? w.predicate(i, i.writes + 2) : 0;
  if ((i.detail & kNegatedThird) != 0) other = ~other;
  uint32_t& first = w.predicate(i, 0);
  const uint32_t opposite = Combine(i.detail, ~result, other);
  first = (first & ~w.active) | (Combine(i.detail, result, other) & w.active);
  if (i.writes > 1) {
    uint32_t& second = w.predicate(i, 1);
    second = (second & ~w.active) | (opposite & w.active);
  }
}

// "set" on integers: all ones or zero.
template <class T>
void SetValue(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  const auto* b = w.lanes<typename T::Lane>(i, 2);
  const auto is = static_cast<uint32_t>(i.immediate);
  ForLanes(w.active,
           [&](int l) { d[l] = Compares(i.code, false, T::Get(a, l), T::Get(b, l)) ? is : 0; });
}

template <class Lane>
void Select(Warp& w, const Instruction& i) {
  auto* d = w.lanes<Lane>(i, 0);
  const auto* a = w.lanes<Lane>(i, 1);
  const auto* b = w.lanes<Lane>(i, 2);
  uint32_t p = w.predicate(i, 3);
  if (i.detail != 0) p = ~p;
  ForLanes(w.active, [&](int l) { d[l] = (p >> l & 1) != 0 ? a[l] : b[l]; });
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
      if (Compares(i.code, (i.detail & kUnorderedSet) != 0, DecodeNumber(type, a >> at),
                   DecodeNumber(type, b >> at))) {
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
      const bool holds =
          Compares(i.code, (i.detail & kUnorderedSet) != 0, DecodeNumber(type, a[l] >> (16 * k)),
                   DecodeNumber(type, b[l] >> (16 * k)));
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

std::optional<uint8_t> ComparisonOf(const Opcode& opcode, uint8_t& detail) {
  constexpr std::pair<std::string_view, uint8_t> kNames[] = {
      {"eq", kEq}, {"ne", kNe}, {"lt", kLt}, {"le", kLe}, {"gt", kGt},      {"ge", kGe},
      {"lo", kLt}, {"ls", kLe}, {"hi", kGt}, {"hs", kGe}, {"num", kNumber}, {"nan", kNaN}};
  constexpr std::pair<std::string_view, uint8_t> kUnorderedNames[] = {
      {"equ", kEq}, {"neu", kNe}, {"ltu", kLt}, {"leu", kLe}, {"gtu", kGt}, {"geu", kGe}};
  if (opcode.parts.size() < 3) return std::nullopt;
  for (const auto& [text, code] : kNames) {
    if (opcode.parts[1] == text) return code;
  }
  for (const auto& [text, code] : kUnorderedNames) {
    if (opcode.parts[1] == text) {
      detail |= kUnordered;
      return code;
    }
  }
  return std::nullopt;
}

}  // namespace

bool BindComparison(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  Instruction& i = decoder.instruction();
  const NumberType type = NumberTypeOf(opcode.type());
  if (type == NumberType::kNone || (opcode.name() == "set" && IsReal(type))) {
    return BindRealSet(opcode, operands, decoder);
  }
  const auto comparison = ComparisonOf(opcode, i.detail);
  if (!comparison || type == NumberType::kNone || operands.size() < 3) {
    return Refuse(decoder, "not known");
  }
  i.code = *comparison;
  const bool sets = opcode.name() == "set";
  Handler handler = nullptr;
#define KC_COMPARE(Template)                                         \
  [](NumberType t) -> Handler {                                      \
    switch (t) {                                                     \
      case NumberType::kU16: return Template(IntegerType<uint16_t>); \
      case NumberType::kS16: return Template(IntegerType<int16_t>);  \
      case NumberType::kU32: return Template(IntegerType<uint32_t>); \
      case NumberType::kS32: return Template(IntegerType<int32_t>);  \
      case NumberType::kU64: return Template(IntegerType<uint64_t>); \
      case NumberType::kS64: return Template(IntegerType<int64_t>);  \
      case NumberType::kF32: return Template(Float32Type);           \
      case NumberType::kF64: return Template(Float64Type);           \
      case NumberType::kF16: return Template(HalfType<false>);       \
      case NumberType::kBf16: return Template(HalfType<true>);       \
      default: return nullptr;                                       \
    }                                                                \
  }(type)
#define KC_SETP(T) SetPredicate<T>
#define KC_SET_INTEGER(T) (SetValue<T>)
  if (sets) {
    if (opcode.Has("and") || opcode.Has("or") || opcode.Has("xor"))
      return Refuse(decoder, "not known");
    handler = KC_COMPARE(KC_SET_INTEGER);
    i.immediate = opcode.parts[opcode.parts.size() - 2] == "f32" ? 0x3f800000 : 0xffffffff;
    if (handler == nullptr) return Refuse(decoder, "not known");
    decoder.Write(operands[0], kWord);
    decoder.Read(operands[1], ClassFor(type));
    decoder.Read(operands[2], ClassFor(type));
    return Set(decoder, handler, {Kind::kPredicate, Pipe::kInteger, 2, 8});
  }
  handler = KC_COMPARE(KC_SETP);
#undef KC_COMPARE
#undef KC_SETP
#undef KC_SET_INTEGER
  if (handler == nullptr) return Refuse(decoder, "not known");
  decoder.Write(operands[0], kPredicate);
  if (operands[0].has_second) decoder.WriteSlot(operands[0].second, kPredicate);
  decoder.Read(operands[1], ClassFor(type));
  decoder.Read(operands[2], ClassFor(type));
  if (operands.size() > 3) {
    decoder.Read(operands[3], kPredicate);
    if (operands[3].negated) i.detail |= kNegatedThird;
    i.detail |= opcode.Has("and") ? 1 : opcode.Has("or") ? 2 : opcode.Has("xor") ? 3 : 0;
  }
  if (!IsReal(type)) i.driver = kComparesIntegers;
  return Set(decoder, handler,
             {Kind::kPredicate, IsReal(type) ? Pipe::kFloat32 : Pipe::kInteger,
              BytesOf(type) == 8 ? 2.0F : 1.0F, 6});
}

bool BindSelection(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const NumberType type = NumberTypeOf(opcode.type());
  if (type == NumberType::kNone || operands.size() < 4) return Refuse(decoder, "not known");
  Elementwise(decoder, operands, ClassFor(type), 2);
  decoder.Read(operands[3], kPredicate);
  decoder.instruction().detail = operands[3].negated ? 1 : 0;
  return Set(decoder, ClassFor(type) == kLong ? Select<LaneU64> : Select<LaneU32>,
             {Kind::kPredicate, Pipe::kInteger, BytesOf(type) == 8 ? 2.0F : 1.0F, 5});
}

}  // namespace kernelcast::worker::virtual_gpu
