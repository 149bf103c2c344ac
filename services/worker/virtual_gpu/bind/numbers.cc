#include "services/worker/virtual_gpu/bind/numbers.h"

#include <bit>

namespace kernelcast::worker::virtual_gpu {

double DecodeNumber(NumberType type, uint64_t bits) {
  switch (type) {
    case NumberType::kF16: return FromHalf(static_cast<uint16_t>(bits));
    case NumberType::kBf16: return FromBfloat16(static_cast<uint16_t>(bits));
    case NumberType::kF32:
    case NumberType::kTf32: return std::bit_cast<float>(static_cast<uint32_t>(bits));
    default: return std::bit_cast<double>(bits);
  }
}

uint64_t EncodeNumber(NumberType type, double value) {
  switch (type) {
    case NumberType::kF16: return ToHalf(static_cast<float>(value));
    case NumberType::kBf16: return ToBfloat16(static_cast<float>(value));
    case NumberType::kF32:
    case NumberType::kTf32: return std::bit_cast<uint32_t>(static_cast<float>(value));
    default: return std::bit_cast<uint64_t>(value);
  }
}

uint8_t RoundingOf(const Opcode& opcode) {
  return opcode.Has("rz") || opcode.Has("rzi")   ? kZero
         : opcode.Has("rm") || opcode.Has("rmi") ? kDown
         : opcode.Has("rp") || opcode.Has("rpi") ? kUp
                                                 : kNearest;
}

}  // namespace kernelcast::worker::virtual_gpu
