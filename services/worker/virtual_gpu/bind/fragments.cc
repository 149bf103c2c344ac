#include "services/worker/virtual_gpu/bind/fragments.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "services/worker/virtual_gpu/execute/memory.h"

namespace kernelcast::worker::virtual_gpu {

std::optional<ElementKind> ElementKindOf(std::string_view name) {
  constexpr std::pair<std::string_view, ElementKind> kNames[] = {
      {"f16", ElementKind::kF16},   {"bf16", ElementKind::kBf16}, {"tf32", ElementKind::kTf32},
      {"f32", ElementKind::kF32},   {"f64", ElementKind::kF64},   {"e4m3", ElementKind::kE4m3},
      {"e5m2", ElementKind::kE5m2}, {"s8", ElementKind::kS8},     {"u8", ElementKind::kU8},
      {"s32", ElementKind::kS32}};
  for (const auto& [text, kind] : kNames) {
    if (text == name) return kind;
  }
  return std::nullopt;
}

int BytesOf(ElementKind kind) {
  switch (kind) {
    case ElementKind::kF64: return 8;
    case ElementKind::kF16:
    case ElementKind::kBf16: return 2;
    case ElementKind::kE4m3:
    case ElementKind::kE5m2:
    case ElementKind::kS8:
    case ElementKind::kU8: return 1;
    default: return 4;
  }
}

int ElementsPerRegister(ElementKind kind) { return std::max(1, 4 / BytesOf(kind)); }

double DecodeElement(ElementKind kind, uint64_t bits) {
  switch (kind) {
    case ElementKind::kF16: return FromHalf(static_cast<uint16_t>(bits));
    case ElementKind::kBf16: return FromBfloat16(static_cast<uint16_t>(bits));
    // The tensor cores ignore the low bits.
    case ElementKind::kTf32: return std::bit_cast<float>(static_cast<uint32_t>(bits & 0xffffe000));
    case ElementKind::kF32: return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case ElementKind::kF64: return std::bit_cast<double>(bits);
    case ElementKind::kE4m3: return FromFloat8(static_cast<uint8_t>(bits), false);
    case ElementKind::kE5m2: return FromFloat8(static_cast<uint8_t>(bits), true);
    case ElementKind::kS8: return static_cast<int8_t>(bits);
    case ElementKind::kU8: return static_cast<uint8_t>(bits);
    case ElementKind::kS32: return static_cast<int32_t>(bits);
  }
  return 0;
}

uint64_t EncodeElement(ElementKind kind, double value) {
  switch (kind) {
    case ElementKind::kF16: return ToHalf(static_cast<float>(value));
    case ElementKind::kBf16: return ToBfloat16(static_cast<float>(value));
    case ElementKind::kF64: return std::bit_cast<uint64_t>(value);
    case ElementKind::kE4m3: return ToFloat8(static_cast<float>(value), false);
    case ElementKind::kE5m2: return ToFloat8(static_cast<float>(value), true);
    case ElementKind::kS8:
    case ElementKind::kU8: return static_cast<uint8_t>(static_cast<int64_t>(value));
    case ElementKind::kS32: return static_cast<uint32_t>(static_cast<int64_t>(value));
    default: return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
}

Fragment::Position Fragment::At(int lane, int register_index, int part) const {
  const int group = lane / 4;
  const int in_group = lane % 4;
  const int each = ElementsPerRegister(kind);
  const bool tall = rows >= 16;
  switch (role) {
    case Role::kA: {
      const int in_tile = std::min(rows, 16) * columns / (32 * each);
      const int tile = register_index / in_tile;
      const int at = register_index % in_tile;
      return {16 * tile + group + (tall ? 8 * (at & 1) : 0),
              each * (in_group + 4 * (tall ? at >> 1 : at)) + part};
    }
    case Role::kB: {
      const int in_tile = rows * 8 / (32 * each);
      return {each * (in_group + 4 * (register_index % in_tile)) + part,
              8 * (register_index / in_tile) + group};
    }
    case Role::kC: break;
  }
  // Two neighbours of a row, in one register or in two.
  const int in_tile = (tall ? 4 : 2) / each;
  const int tile = register_index / in_tile;
  const int element = register_index % in_tile * each + part;
  return {16 * (tile / (columns / 8)) + group + 8 * (element >> 1),
          8 * (tile % (columns / 8)) + 2 * in_group + (element & 1)};
}

int64_t Product::Pack() const {
  return a.rows | a.columns << 8 | static_cast<int64_t>(b.columns) << 16 |
         static_cast<int64_t>(a.kind) << 32 | static_cast<int64_t>(b.kind) << 36 |
         static_cast<int64_t>(c.kind) << 40 | static_cast<int64_t>(d) << 44 |
         static_cast<int64_t>(saturates ? 1 : 0) << 48;
}

Product Product::Unpack(int64_t packed) {
  const auto kind = [&](int at) { return static_cast<ElementKind>(packed >> at & 15); };
  const int m = static_cast<int>(packed & 255);
  const int k = static_cast<int>(packed >> 8 & 255);
  const int n = static_cast<int>(packed >> 16 & 0xffff);
  return {.a = {Role::kA, kind(32), m, k},
          .b = {Role::kB, kind(36), k, n},
          .c = {Role::kC, kind(40), m, n},
          .d = kind(44),
          .saturates = (packed >> 48 & 1) != 0};
}

}  // namespace kernelcast::worker::virtual_gpu
