#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_NUMBERS_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_NUMBERS_H_

#include <cfenv>
#include <cstdint>

#include "services/worker/virtual_gpu/bind/binding.h"

namespace kernelcast::worker::virtual_gpu {

// How results are rounded.
enum Rounding : uint8_t { kNearest, kZero, kDown, kUp };
inline constexpr int kRoundingModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

// The mode of ".rz", ".rm", ".rp" and their integral forms; to nearest without one.
uint8_t RoundingOf(const Opcode& opcode);

// Conversions between a floating-point type and double. Rounds to nearest even.
double DecodeNumber(NumberType type, uint64_t bits);
uint64_t EncodeNumber(NumberType type, double value);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_NUMBERS_H_
