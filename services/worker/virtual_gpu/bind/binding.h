#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_BINDING_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_BINDING_H_

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "services/worker/virtual_gpu/bind/decoder.h"
#include "services/worker/virtual_gpu/execute/memory.h"
#include "services/worker/virtual_gpu/execute/warp.h"

// Shared by the files that bind instructions: lane types, type names, costs.

namespace kernelcast::worker::virtual_gpu {

using Operands = std::vector<Operand>;

// Sets the handler, the registers and the cost of an instruction. Returns false if it is not
// covered; then the decoder has the reason.
using Binder = bool (*)(const Opcode&, const Operands&, Decoder&);

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

// Reads the lane mask of a warp-level operation, which follows its other sources.
inline void ReadMask(const Operands& operands, size_t at, Decoder& decoder) {
  if (operands.size() <= at) return;
  decoder.Read(operands[at], kWord);
  Instruction& i = decoder.instruction();
  i.mask_operand = static_cast<uint8_t>(i.writes + i.reads);
}

// Handlers that several kinds share.
inline void Nothing(Warp&, const Instruction&) {}
// Sets written registers to 0, and predicates to true.
inline void ClearResults(Warp& w, const Instruction& i) {
  for (int k = 0; k < i.writes; ++k) {
    const uint16_t slot = w.operands(i)[k];
    if (w.kernel->slots[slot].kind == SlotClass::kPredicate) {
      w.mask_of(slot) |= w.active;  // waits always succeed
    } else {
      ForLanes(w.active, [&](int l) { WriteLane(w, slot, l, 0); });
    }
  }
}

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_BINDING_H_
