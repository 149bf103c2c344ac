#ifndef KERNELCAST_SERVICES_WORKER_CUDA_PTX_BINDING_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_PTX_BINDING_H_

#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "services/worker/cuda/ptx/decoder.h"
#include "services/worker/cuda/ptx/memory.h"
#include "services/worker/cuda/ptx/warp.h"

// Shared by the files that bind instructions: lane types, type names, costs.

namespace kernelcast::worker::ptx {

using Operands = std::vector<Operand>;

// Integers of any width, zero-extended in registers.
template <class V>
struct IntegerType {
  using Value = V;
  using Unsigned = std::make_unsigned_t<V>;
  using Lane = std::conditional_t<sizeof(V) == 8, LaneU64, LaneU32>;
  static Value Get(const Lane* lanes, int lane) { return static_cast<Value>(lanes[lane]); }
  static void Set(Lane* lanes, int lane, Value value) {
    lanes[lane] = static_cast<Unsigned>(value);
  }
};
struct Float32Type {
  using Value = float;
  using Lane = LaneF32;
  static Value Get(const Lane* lanes, int lane) { return lanes[lane]; }
  static void Set(Lane* lanes, int lane, Value value) { lanes[lane] = value; }
};
struct Float64Type {
  using Value = double;
  using Lane = LaneF64;
  static Value Get(const Lane* lanes, int lane) { return lanes[lane]; }
  static void Set(Lane* lanes, int lane, Value value) { lanes[lane] = value; }
};
template <bool kBrain>
struct HalfType {
  using Value = float;
  using Lane = LaneU32;
  static float Decode(uint32_t bits) {
    return kBrain ? FromBfloat16(static_cast<uint16_t>(bits))
                  : FromHalf(static_cast<uint16_t>(bits));
  }
  static uint32_t Encode(float value) { return kBrain ? ToBfloat16(value) : ToHalf(value); }
  static Value Get(const Lane* lanes, int lane) { return Decode(lanes[lane]); }
  static void Set(Lane* lanes, int lane, Value value) { lanes[lane] = Encode(value); }
};

enum class NumberType : uint8_t {
  kU8,
  kS8,
  kU16,
  kS16,
  kU32,
  kS32,
  kU64,
  kS64,
  kF16,
  kBf16,
  kF32,
  kF64,
  kTf32,
  kNone
};

inline NumberType NumberTypeOf(std::string_view name) {
  constexpr std::pair<std::string_view, NumberType> kNames[] = {
      {"u8", NumberType::kU8},   {"s8", NumberType::kS8},     {"b8", NumberType::kU8},
      {"u16", NumberType::kU16}, {"s16", NumberType::kS16},   {"b16", NumberType::kU16},
      {"u32", NumberType::kU32}, {"s32", NumberType::kS32},   {"b32", NumberType::kU32},
      {"u64", NumberType::kU64}, {"s64", NumberType::kS64},   {"b64", NumberType::kU64},
      {"f16", NumberType::kF16}, {"bf16", NumberType::kBf16}, {"f32", NumberType::kF32},
      {"f64", NumberType::kF64}, {"tf32", NumberType::kTf32}};
  for (const auto& [text, type] : kNames) {
    if (text == name) return type;
  }
  return NumberType::kNone;
}
inline int BytesOf(NumberType type) {
  switch (type) {
    case NumberType::kU8:
    case NumberType::kS8: return 1;
    case NumberType::kU16:
    case NumberType::kS16:
    case NumberType::kF16:
    case NumberType::kBf16: return 2;
    case NumberType::kU64:
    case NumberType::kS64:
    case NumberType::kF64: return 8;
    case NumberType::kNone: return 0;
    default: return 4;
  }
}
inline bool IsReal(NumberType type) {
  return type >= NumberType::kF16 && type <= NumberType::kTf32;
}
inline bool IsSigned(NumberType type) {
  return type == NumberType::kS8 || type == NumberType::kS16 || type == NumberType::kS32 ||
         type == NumberType::kS64;
}

inline uint64_t ReadLane(Warp& w, uint16_t slot, int lane) {
  return w.kernel->slots[slot].kind == SlotClass::kLong
             ? reinterpret_cast<const LaneU64*>(w.slot(slot))[lane]
             : reinterpret_cast<const LaneU32*>(w.slot(slot))[lane];
}
inline void WriteLane(Warp& w, uint16_t slot, int lane, uint64_t value) {
  if (w.kernel->slots[slot].kind == SlotClass::kLong) {
    reinterpret_cast<LaneU64*>(w.slot(slot))[lane] = value;
  } else {
    reinterpret_cast<LaneU32*>(w.slot(slot))[lane] = static_cast<uint32_t>(value);
  }
}

struct Cost {
  Kind kind;
  Pipe pipe;
  float issue;
  float latency;
};

inline bool Set(Decoder& decoder, Handler handler, Cost cost) {
  Instruction& i = decoder.instruction();
  i.execute = handler;
  i.kind = cost.kind;
  i.pipe = cost.pipe;
  i.issue = cost.issue;
  i.latency = cost.latency;
  return decoder.ok();
}

inline bool Refuse(Decoder& decoder, std::string_view why) {
  decoder.Fail(why);
  return false;
}

inline constexpr SlotClass kWord = SlotClass::kWord;
inline constexpr SlotClass kLong = SlotClass::kLong;
inline constexpr SlotClass kPredicate = SlotClass::kPredicate;

inline SlotClass ClassFor(NumberType type) { return BytesOf(type) == 8 ? kLong : kWord; }

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

// Binds instructions that are not in instructions.cc: carries, dot products, video instructions,
// packed integers and packed comparisons. Returns false if the instruction is none of these, or is
// not covered; then the decoder has a reason.
bool BindMath(const Opcode& opcode, const std::vector<Operand>& operands, Decoder& decoder);

}  // namespace kernelcast::worker::ptx

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_PTX_BINDING_H_
