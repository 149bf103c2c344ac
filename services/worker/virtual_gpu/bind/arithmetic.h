#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_ARITHMETIC_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_ARITHMETIC_H_

#include <cstdint>
#include <string_view>

#include "services/worker/virtual_gpu/bind/binding.h"

// Instructions that exist for several kinds of numbers, such as add: one binder per kind.

namespace kernelcast::worker::virtual_gpu {

enum class Arithmetic : uint8_t { kAdd, kSub, kMul, kMin, kMax, kFma, kNeg, kAbs, kNone };
// kNone for names that are not of this kind.
Arithmetic ArithmeticOf(std::string_view name);

// Issue slots of an integer instruction on words and on longs, and its latency.
inline Cost IntegerCost(NumberType type, float word, float wide) {
  return {Kind::kInteger, Pipe::kInteger, BytesOf(type) == 8 ? wide : word,
          BytesOf(type) == 8 ? 5.0F + wide : 4.5F};
}

// arithmetic.cc: chooses one of the following by the type.
bool BindArithmetic(const Opcode& opcode, const Operands& operands, Decoder& decoder);
// integer.cc
bool BindInteger(const Opcode& opcode, const Operands& operands, Decoder& decoder, NumberType type);
bool BindCarry(const Opcode& opcode, const Operands& operands, Decoder& decoder);
// packed_integer.cc
bool BindShortPair(const Opcode& opcode, const Operands& operands, Decoder& decoder);
// floating_point.cc
bool BindReal(const Opcode& opcode, const Operands& operands, Decoder& decoder,
              Arithmetic arithmetic, NumberType type);
// Pairs of halves, of bfloat16 if `brain`.
bool BindPacked(const Opcode& opcode, const Operands& operands, Decoder& decoder,
                Arithmetic arithmetic, bool brain);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_ARITHMETIC_H_
