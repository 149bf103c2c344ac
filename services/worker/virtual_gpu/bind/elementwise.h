#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_ELEMENTWISE_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_ELEMENTWISE_H_

#include <cstddef>
#include <cstdint>

#include "services/worker/virtual_gpu/bind/binding.h"

// Handlers that apply an operation to each lane, and the choice of one by its type. An operation is
// a type with a static function `Of`.

namespace kernelcast::worker::virtual_gpu {

template <class T, class F>
void Unary(Warp& w, const Instruction& i) {
  auto* d = w.lanes<typename T::Lane>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  ForLanes(w.active, [&](int l) { T::Set(d, l, F::Of(T::Get(a, l))); });
}
template <class T, class F>
void Binary(Warp& w, const Instruction& i) {
  auto* d = w.lanes<typename T::Lane>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  const auto* b = w.lanes<typename T::Lane>(i, 2);
  ForLanes(w.active, [&](int l) { T::Set(d, l, F::Of(T::Get(a, l), T::Get(b, l))); });
}
template <class T, class F>
void Ternary(Warp& w, const Instruction& i) {
  auto* d = w.lanes<typename T::Lane>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  const auto* b = w.lanes<typename T::Lane>(i, 2);
  const auto* c = w.lanes<typename T::Lane>(i, 3);
  ForLanes(w.active, [&](int l) { T::Set(d, l, F::Of(T::Get(a, l), T::Get(b, l), T::Get(c, l))); });
}
// The second operand is always a word.
template <class T, class F>
void Shift(Warp& w, const Instruction& i) {
  auto* d = w.lanes<typename T::Lane>(i, 0);
  const auto* a = w.lanes<typename T::Lane>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  ForLanes(w.active, [&](int l) { T::Set(d, l, F::Of(T::Get(a, l), b[l])); });
}
// Operates on both halves of a word.
template <bool kBrain, class F, int kSources>
void Packed(Warp& w, const Instruction& i) {
  using H = HalfType<kBrain>;
  auto* d = w.lanes<LaneU32>(i, 0);
  const LaneU32* s[3] = {w.lanes<LaneU32>(i, 1), kSources > 1 ? w.lanes<LaneU32>(i, 2) : nullptr,
                         kSources > 2 ? w.lanes<LaneU32>(i, 3) : nullptr};
  ForLanes(w.active, [&](int l) {
    uint32_t result = 0;
    for (int half = 0; half < 2; ++half) {
      const int by = 16 * half;
      const float a = H::Decode(s[0][l] >> by & 0xffff);
      float value = 0;
      if constexpr (kSources == 1) {
        value = F::Of(a);
      } else if constexpr (kSources == 2) {
        value = F::Of(a, H::Decode(s[1][l] >> by & 0xffff));
      } else {
        value = F::Of(a, H::Decode(s[1][l] >> by & 0xffff), H::Decode(s[2][l] >> by & 0xffff));
      }
      result |= H::Encode(value) << by;
    }
    d[l] = result;
  });
}

// Binds the first operand as written and the next `sources` operands as read.
inline bool Elementwise(Decoder& decoder, const Operands& operands, SlotClass kind,
                        size_t sources) {
  if (operands.size() < sources + 1) return Refuse(decoder, "too few operands");
  decoder.Write(operands[0], kind);
  for (size_t k = 1; k <= sources; ++k) decoder.Read(operands[k], kind);
  return decoder.ok();
}

#define KC_BY_INTEGER(Template, Op)                                      \
  [](NumberType number) -> Handler {                                     \
    switch (number) {                                                    \
      case NumberType::kU16: return Template<IntegerType<uint16_t>, Op>; \
      case NumberType::kS16: return Template<IntegerType<int16_t>, Op>;  \
      case NumberType::kU32: return Template<IntegerType<uint32_t>, Op>; \
      case NumberType::kS32: return Template<IntegerType<int32_t>, Op>;  \
      case NumberType::kU64: return Template<IntegerType<uint64_t>, Op>; \
      case NumberType::kS64: return Template<IntegerType<int64_t>, Op>;  \
      default: return nullptr;                                           \
    }                                                                    \
  }(type)
#define KC_BY_UNSIGNED(Template, Op)                      \
  [](NumberType number) -> Handler {                      \
    switch (BytesOf(number)) {                            \
      case 2: return Template<IntegerType<uint16_t>, Op>; \
      case 4: return Template<IntegerType<uint32_t>, Op>; \
      case 8: return Template<IntegerType<uint64_t>, Op>; \
      default: return nullptr;                            \
    }                                                     \
  }(type)
#define KC_BY_REAL(Template, Op)                                   \
  [](NumberType number) -> Handler {                               \
    switch (number) {                                              \
      case NumberType::kF32: return Template<Float32Type, Op>;     \
      case NumberType::kF64: return Template<Float64Type, Op>;     \
      case NumberType::kF16: return Template<HalfType<false>, Op>; \
      case NumberType::kBf16: return Template<HalfType<true>, Op>; \
      default: return nullptr;                                     \
    }                                                              \
  }(type)

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_ELEMENTWISE_H_
