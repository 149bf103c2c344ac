#include <algorithm>
#include <cstdint>

#include "services/worker/virtual_gpu/bind/memory_operands.h"
#include "services/worker/virtual_gpu/execute/access.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

void CheckCopy(Warp& w, const Instruction& i, const Addresses& to, const Addresses& from) {
  Checker& checker = *w.block->checker;
  checker.BeginInstruction();
  int n = 0;
  ForLanes(w.active, [&](int l) {
    const auto at = static_cast<size_t>(n++);
    // Fewer bytes may be read than written.
    const auto source =
        i.reads > 2 ? ReadLane(w, w.operands(i)[2], l) : static_cast<uint64_t>(i.bytes);
    checker.Aligned(w, i, l, to.at[at], i.bytes);
    checker.Aligned(w, i, l, from.at[at], i.bytes);
    if (source > 0) {
      checker.Global(w, i, l, from.at[at], static_cast<int>(std::min<uint64_t>(source, i.bytes)),
                     AccessKind::kRead);
    }
    for (int piece = 0; piece < i.bytes; piece += 4) {
      checker.Shared(w, i, l, to.at[at] + static_cast<uint64_t>(piece), 4, AccessKind::kAsyncWrite);
    }
  });
}

// Copies from global to shared memory. i.immediate is the offset of the first address, i.flops that
// of the second.
void AsyncCopy(Warp& w, const Instruction& i) {
  Addresses to = Gather(w, i, 0);
  Instruction from_instruction = i;
  from_instruction.immediate = static_cast<int64_t>(i.flops);
  Addresses from = Gather(w, from_instruction, 1);
  if (i.space == Space::kGeneric) Resolve(w, Space::kGeneric, to);
  int bytes = i.bytes;
  int sectors = 0;
  int lines = 0;
  w.latency = CountRead(w, from, bytes, i.detail != 0, sectors, lines);
  Counters& c = w.counters;
  c.kind[static_cast<size_t>(Kind::kAsyncCopy)] += 1;
  c.async_copies += 1;
  c.async_bytes += from.count * bytes;
  c.async_sectors += sectors;
  c.global_lines += lines;
  const int wavefronts = SharedWavefronts({to.at.data(), static_cast<size_t>(to.count)}, bytes);
  c.shared_store_wavefronts += wavefronts;
  c.shared_store_ideal += IdealWavefronts(to.count, bytes);
  c.shared_bytes += to.count * bytes;
  c.loads += 1;
  c.load_cycles += w.latency;
  c.load_byte_cycles += static_cast<double>(w.latency) * sectors * kSectorBytes;
  w.async_ready = std::max(w.async_ready, w.start + w.latency);
  if (w.block->checker != nullptr) CheckCopy(w, i, to, from);
  int n = 0;
  ForLanes(w.active, [&](int l) {
    const auto at = static_cast<size_t>(n++);
    const auto source =
        i.reads > 2 ? ReadLane(w, w.operands(i)[2], l) : static_cast<uint64_t>(bytes);
    for (int piece = 0; piece < bytes; piece += 4) {
      uint64_t value = static_cast<uint64_t>(piece) < source
                           ? w.block->memory->Read(from.at[at] + static_cast<uint64_t>(piece), 4)
                           : 0;
      // The source may end within a word.
      const uint64_t rest = source - std::min(source, static_cast<uint64_t>(piece));
      if (rest < 4) value &= (uint64_t{1} << (8 * rest)) - 1;
      WriteAt(w, Space::kShared, l, to.at[at] + static_cast<uint64_t>(piece), 4, value);
    }
  });
}

void CommitAsync(Warp& w, const Instruction&) {
  if (w.block->checker != nullptr) w.block->checker->CommitCopies(w);
  w.async_groups.push_back(w.async_ready);
  if (w.async_groups.size() > 64) w.async_groups.pop_front();
}

// Waits until at most i.immediate groups are outstanding; -1: all copies.
void WaitAsync(Warp& w, const Instruction& i) {
  if (w.block->checker != nullptr) w.block->checker->WaitForCopies(w, i.immediate);
  double until = i.immediate < 0 ? w.async_ready : 0;
  while (static_cast<int64_t>(w.async_groups.size()) > std::max<int64_t>(i.immediate, 0)) {
    until = std::max(until, w.async_groups.front());
    w.async_groups.pop_front();
  }
  w.clock = std::max(w.clock, until);
}

}  // namespace

bool BindCopy(const Opcode& opcode, const Operands& operands, Decoder& decoder) {
  Instruction& i = decoder.instruction();
  if (opcode.Has("bulk")) return Refuse(decoder, "bulk copies");
  if (!opcode.Has("async")) return Refuse(decoder, "not known");
  if (opcode.Has("mbarrier")) {
    i.hidden_synchronisation = true;
    i.approximates = "mbarriers";
  }
  if (opcode.Has("mbarrier")) return Set(decoder, Nothing, {Kind::kBarrier, Pipe::kMemory, 1, 4});
  if (opcode.Has("commit_group")) {
    return Set(decoder, CommitAsync, {Kind::kOther, Pipe::kControl, 1, 1});
  }
  if (opcode.Has("wait_group") || opcode.Has("wait_all")) {
    i.flow = Flow::kWaitAsync;
    i.immediate = -1;
    if (!operands.empty() && operands[0].type == Operand::Type::kImmediate) {
      i.immediate = static_cast<int64_t>(std::min<uint64_t>(operands[0].bits, 64));
    }
    return Set(decoder, WaitAsync, {Kind::kOther, Pipe::kControl, 1, 1});
  }
  if (operands.size() < 3 || operands[2].type != Operand::Type::kImmediate ||
      (operands[2].bits != 4 && operands[2].bits != 8 && operands[2].bits != 16)) {
    return Refuse(decoder, "not known");
  }
  i.bytes = static_cast<uint8_t>(operands[2].bits);
  i.space = SpaceOf(opcode);
  decoder.ReadAddress(operands[1]);
  const int64_t from = i.immediate;
  if (from < -(int64_t{1} << 40) || from > int64_t{1} << 40) return Refuse(decoder, "not known");
  // The destination is the first operand.
  decoder.Begin(i);
  decoder.ReadAddress(operands[0]);
  const int64_t to = i.immediate;
  decoder.ReadAddress(operands[1]);
  i.immediate = to;
  i.flops = static_cast<double>(from);
  i.detail = opcode.Has("cg") ? 1 : 0;
  if (operands.size() > 3 && (operands[3].type == Operand::Type::kImmediate ||
                              operands[3].type == Operand::Type::kRegister)) {
    if (operands[3].type == Operand::Type::kRegister &&
        decoder.ClassOf(operands[3].slot) == SlotClass::kPredicate) {
      return Refuse(decoder, "not known");
    }
    if (operands[3].type == Operand::Type::kImmediate) {
      decoder.Read(operands[3], SlotClass::kWord);
    } else {
      decoder.ReadAny(operands[3]);
    }
  }
  return Set(decoder, AsyncCopy, {Kind::kOther, Pipe::kMemory, 1, 1});
}

}  // namespace kernelcast::worker::virtual_gpu
