#include <cstdint>

#include "services/worker/virtual_gpu/bind/binding.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

// All barriers of a block are treated as one for all its warps.
constexpr const char* kNamedBarriers = "named barriers";

bool BindBarrierReduction(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  const BarrierReduction reduction = opcode.Has("popc")  ? BarrierReduction::kCount
                                     : opcode.Has("and") ? BarrierReduction::kAll
                                     : opcode.Has("or")  ? BarrierReduction::kAny
                                                         : BarrierReduction::kNone;
  if (reduction == BarrierReduction::kNone || operands.size() < 3 || operands.size() > 4 ||
      operands.back().type != Operand::Type::kRegister) {
    return Refuse(decoder, "not known");
  }
  Instruction& i = decoder.instruction();
  Set(decoder, Nothing, {Kind::kBarrier, Pipe::kControl, 2, 4});
  i.code = static_cast<uint8_t>(reduction);
  i.detail = operands.back().negated ? 1 : 0;
  i.flow = Flow::kBarrier;
  // A named barrier, or one for part of the block.
  i.hidden_synchronisation = operands.size() != 3 ||
                             operands[1].type != Operand::Type::kImmediate || operands[1].bits != 0;
  if (i.hidden_synchronisation) i.approximates = kNamedBarriers;
  decoder.Write(operands[0], reduction == BarrierReduction::kCount ? kWord : kPredicate);
  decoder.Read(operands.back(), kPredicate);
  return decoder.ok();
}

}  // namespace

bool BindBarrier(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  Instruction& i = decoder.instruction();
  if (opcode.Has("warp")) {
    ReadMask(operands, 0, decoder);
    return Set(decoder, Nothing, {Kind::kBarrier, Pipe::kControl, 1, 4});
  }
  if (opcode.Has("red")) return BindBarrierReduction(opcode, operands, decoder);
  Set(decoder, Nothing, {Kind::kBarrier, Pipe::kControl, 1, 4});
  const bool arrives = opcode.Has("arrive");
  // A named barrier, or one for part of the block or several blocks.
  const bool plain =
      operands.empty() || (operands.size() == 1 && operands[0].type == Operand::Type::kImmediate &&
                           operands[0].bits == 0);
  i.hidden_synchronisation = arrives || !plain || opcode.Has("cluster");
  if (i.hidden_synchronisation) {
    i.orders_blocks = opcode.Has("cluster");
    i.approximates = opcode.Has("cluster") ? "clusters" : kNamedBarriers;
  }
  if (!arrives && !opcode.Has("cluster")) i.flow = Flow::kBarrier;
  return true;
}

bool BindFence(const Opcode& opcode, const Operands&, Decoder& decoder) {
  const bool wide = opcode.Has("gl") || opcode.Has("gpu") || opcode.Has("sys");
  decoder.instruction().orders_blocks = wide;
  return Set(decoder, Nothing,
             {Kind::kFence, Pipe::kControl, wide ? 4.0F : 1.0F, wide ? 500.0F : 20.0F});
}

bool BindMemoryBarrier(const Opcode&, const Operands& operands, Decoder& decoder) {
  Instruction& i = decoder.instruction();
  // Arrivals are not tracked: every wait succeeds.
  i.hidden_synchronisation = true;
  i.approximates = "mbarriers";
  if (!operands.empty() &&
      (operands[0].type == Operand::Type::kRegister || operands[0].type == Operand::Type::kSink)) {
    decoder.Write(operands[0],
                  operands[0].type == Operand::Type::kSink ? kLong : decoder.KindOf(operands[0]));
  }
  return Set(decoder, ClearResults, {Kind::kBarrier, Pipe::kMemory, 2, 30});
}

// Instructions without an effect on values or counts.
bool BindNothing(const Opcode&, const Operands&, Decoder& decoder) {
  return Set(decoder, Nothing, {Kind::kOther, Pipe::kControl, 1, 4});
}

}  // namespace kernelcast::worker::virtual_gpu
