#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "services/worker/virtual_gpu/bind/arithmetic.h"

// Integers that share a word: dot products, video instructions and pairs of shorts.

namespace kernelcast::worker::virtual_gpu {
namespace {

constexpr Cost kIntegerCost{Kind::kInteger, Pipe::kInteger, 1, 5};

// The number in `bits` bits of a word from bit `at` on.
int32_t PartOf(uint32_t word, int at, int bits, bool is_signed) {
  const uint32_t value = word >> at & ((uint32_t{1} << bits) - 1);
  return is_signed ? static_cast<int32_t>(value << (32 - bits)) >> (32 - bits)
                   : static_cast<int32_t>(value);
}

// detail: 1 and 2: signed factors; 4: dp2a; 8: its high half.
void DotProduct(Warp& w, const Instruction& i) {
  auto* d = w.lanes<LaneU32>(i, 0);
  const auto* a = w.lanes<LaneU32>(i, 1);
  const auto* b = w.lanes<LaneU32>(i, 2);
  const auto* c = w.lanes<LaneU32>(i, 3);
  const bool halves = (i.detail & 4) != 0;
  ForLanes(w.active, [&](int l) {
    int64_t sum = static_cast<int32_t>(c[l]);
    for (int k = 0; k < (halves ? 2 : 4); ++k) {
      const int at = halves && (i.detail & 8) != 0 ? k + 2 : k;
      const int bits = halves ? 16 : 8;
      sum += int64_t{PartOf(a[l], k * bits, bits, (i.detail & 1) != 0)} *
             PartOf(b[l], at * 8, 8, (i.detail & 2) != 0);
    }
    d[l] = static_cast<uint32_t>(sum);
  });
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
      const int32_t x = PartOf(a[l], at, bits, is_signed);
      const int32_t y = PartOf(b[l], at, bits, is_signed);
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
      const int32_t x = PartOf(a[l], at, 16, is_signed);
      const int32_t y = PartOf(b[l], at, 16, is_signed);
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

}  // namespace

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

}  // namespace kernelcast::worker::virtual_gpu
