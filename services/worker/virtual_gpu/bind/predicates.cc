#include "services/worker/virtual_gpu/bind/predicates.h"

#include <cstdint>
#include <string_view>

namespace kernelcast::worker::virtual_gpu {
namespace {

void PredicateLogic(Warp& w, const Instruction& i) {
  uint32_t a = w.predicate(i, 1);
  uint32_t b = i.reads > 1 ? w.predicate(i, 2) : 0;
  if ((i.detail & 1) != 0) a = ~a;
  if ((i.detail & 2) != 0) b = ~b;
  uint32_t result = a;
  switch (i.code) {
    case 1: result = a & b; break;
    case 2: result = a | b; break;
    case 3: result = a ^ b; break;
    case 4: result = ~a; break;
    default: break;
  }
  uint32_t& d = w.predicate(i, 0);
  d = (d & ~w.active) | (result & w.active);
}

void SetPredicateConstant(Warp& w, const Instruction& i) {
  uint32_t& d = w.predicate(i, 0);
  d = i.immediate != 0 ? d | w.active : d & ~w.active;
}

}  // namespace

bool BindPredicateLogic(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const std::string_view name = opcode.name();
  Instruction& i = decoder.instruction();
  const size_t sources = name == "not" ? 1 : 2;
  if (operands.size() < sources + 1) return Refuse(decoder, "too few operands");
  decoder.Write(operands[0], kPredicate);
  for (size_t k = 1; k <= sources; ++k) {
    if (operands[k].type != Operand::Type::kRegister) return Refuse(decoder, "not known");
    decoder.Read(operands[k], kPredicate);
    if (operands[k].negated) i.detail |= static_cast<uint8_t>(k);
  }
  i.code = name == "and" ? 1 : name == "or" ? 2 : name == "xor" ? 3 : 4;
  return Set(decoder, PredicateLogic, {Kind::kPredicate, Pipe::kInteger, 0.5F, 5});
}

bool BindPredicateMove(const Operands& operands, Decoder& decoder) {
  Instruction& i = decoder.instruction();
  const Cost cost{Kind::kMove, Pipe::kInteger, 0.25F, 1};
  decoder.Write(operands[0], kPredicate);
  if (operands[1].type == Operand::Type::kImmediate) {
    i.immediate = static_cast<int64_t>(operands[1].bits);
    return Set(decoder, SetPredicateConstant, cost);
  }
  decoder.Read(operands[1], kPredicate);
  i.detail = operands[1].negated ? 1 : 0;
  return Set(decoder, PredicateLogic, cost);
}

}  // namespace kernelcast::worker::virtual_gpu
