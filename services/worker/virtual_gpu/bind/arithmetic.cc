#include "services/worker/virtual_gpu/bind/arithmetic.h"

#include <utility>

namespace kernelcast::worker::virtual_gpu {

Arithmetic ArithmeticOf(std::string_view name) {
  constexpr std::pair<std::string_view, Arithmetic> kNames[] = {
      {"add", Arithmetic::kAdd}, {"sub", Arithmetic::kSub}, {"mul", Arithmetic::kMul},
      {"min", Arithmetic::kMin}, {"max", Arithmetic::kMax}, {"fma", Arithmetic::kFma},
      {"mad", Arithmetic::kFma}, {"neg", Arithmetic::kNeg}, {"abs", Arithmetic::kAbs}};
  for (const auto& [text, arithmetic] : kNames) {
    if (text == name) return arithmetic;
  }
  return Arithmetic::kNone;
}

bool BindArithmetic(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  // ".relu" of integers follows the type.
  const bool relu = opcode.type() == "relu" && opcode.parts.size() > 2;
  const std::string_view type_name = relu ? opcode.parts[opcode.parts.size() - 2] : opcode.type();
  const Arithmetic arithmetic = ArithmeticOf(opcode.name());
  if (type_name == "f16x2" || type_name == "bf16x2") {
    const bool brain = type_name == "bf16x2";
    return BindPacked(opcode, operands, decoder, arithmetic, brain);
  }
  const NumberType type = NumberTypeOf(type_name);
  if (opcode.Has("s16x2") || type_name == "u16x2") return BindShortPair(opcode, operands, decoder);
  if (opcode.Has("cc")) return BindCarry(opcode, operands, decoder);
  if (type == NumberType::kNone) return Refuse(decoder, "not known");
  if (IsReal(type)) return BindReal(opcode, operands, decoder, arithmetic, type);
  return BindInteger(opcode, operands, decoder, type);
}

}  // namespace kernelcast::worker::virtual_gpu
