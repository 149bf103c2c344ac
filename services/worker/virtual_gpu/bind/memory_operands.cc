#include "services/worker/virtual_gpu/bind/memory_operands.h"

namespace kernelcast::worker::virtual_gpu {
AccessType AccessTypeOf(std::string_view name) {
  if (name == "f16x2" || name == "bf16x2") return {4, false};
  if (name == "bf16") return {2, false};
  if (name.size() < 2) return {};
  const std::string_view bits = name.substr(1);
  if (name[0] != 'b' && name[0] != 'u' && name[0] != 's' && name[0] != 'f') return {};
  const bool is_signed = name[0] == 's';
  if (bits == "8") return {1, is_signed};
  if (bits == "16") return {2, is_signed};
  if (bits == "32") return {4, is_signed};
  if (bits == "64") return {8, is_signed};
  return {};
}

Space SpaceOf(const Opcode& opcode) {
  for (const std::string_view part : opcode.parts) {
    if (part == "global") return Space::kGlobal;
    if (part.starts_with("shared")) return Space::kShared;
    if (part == "local") return Space::kLocal;
    if (part.starts_with("param")) return Space::kParameter;
    if (part == "const") return Space::kConstant;
  }
  return Space::kGeneric;
}

int VectorOf(const Opcode& opcode) {
  return opcode.Has("v8") ? 8 : opcode.Has("v4") ? 4 : opcode.Has("v2") ? 2 : 1;
}

std::vector<Operand> Elements(const Operand& operand) {
  return operand.type == Operand::Type::kVector ? operand.elements : std::vector<Operand>{operand};
}

}  // namespace kernelcast::worker::virtual_gpu
