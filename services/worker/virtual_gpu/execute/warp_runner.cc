#include "services/worker/virtual_gpu/execute/warp_runner.h"

#include <algorithm>
#include <bit>

#include "services/worker/virtual_gpu/execute/loops.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

constexpr size_t kMaxStack = 512;
constexpr int64_t kTurn = 4000;  // steps of a warp before the next one runs
// Computing this many operations of a matrix product takes as long as another instruction.
constexpr double kProductFlops = 300;
// The same of moving a tile.
constexpr int64_t kTileSteps = 10;

}  // namespace

Outcome WarpRunner::Run() {
  const Kernel& kernel = *w_.kernel;
  const std::vector<Instruction>& code = kernel.instructions;
  int64_t turn = kTurn;
  while (!w_.stack.empty()) {
    StackEntry& top = w_.stack.back();
    if (top.mask == 0 || top.pc < 0 || top.pc == top.reconverge) {
      // Lanes that reached their reconvergence point continue with the entry below.
      if (top.pc < 0 && top.mask != 0) {
        End(top.mask);
      } else {
        w_.stack.pop_back();
      }
      continue;
    }
    if (steps_left_-- <= 0) return Outcome::kSteps;
    if (turn-- <= 0) return Outcome::kDone;
    ++w_.steps;
    const Instruction& i = code[static_cast<size_t>(top.pc)];
    uint32_t mask = top.mask;
    if (i.guard >= 0) {
      const uint32_t p = w_.mask_of(static_cast<uint16_t>(i.guard));
      mask &= i.guard_negated ? ~p : p;
    }
    Counters& c = w_.counters;
    c.instructions += 1;
    const uint32_t counted = i.flow == Flow::kBranch ? top.mask : mask;
    c.lanes += counted == ~uint32_t{0} ? kWarpLanes : std::popcount(counted);
    c.issue_slots += i.issue;
    c.pipe[static_cast<size_t>(i.pipe)] += i.issue;
    w_.clock += i.issue;
    switch (i.flow) {
      case Flow::kBranch: {
        if (const Outcome outcome = Branch(i, top, mask); outcome != Outcome::kDone) {
          return outcome;
        }
        continue;
      }
      case Flow::kExit: {
        c.kind[static_cast<size_t>(Kind::kControl)] += 1;
        ++top.pc;
        End(mask);
        continue;
      }
      case Flow::kBarrier: {
        c.kind[static_cast<size_t>(Kind::kBarrier)] += 1;
        c.barriers += 1;
        if (w_.block->checker != nullptr) w_.block->checker->ArrivesAtBarrier(w_, i, mask);
        if (static_cast<BarrierReduction>(i.code) != BarrierReduction::kNone) Contribute(i, mask);
        ++top.pc;
        w_.clock = std::max(w_.clock, w_.last_start);
        w_.waiting = true;
        return Outcome::kDone;
      }
      default: break;
    }
    const bool predicated = top.pc < w_.predicated_end;
    ++top.pc;
    if (mask == 0) continue;
    w_.active = mask;
    const uint16_t* operands = w_.operands(i);
    double start = predicated ? std::max(w_.entry, w_.predicate_ready) : w_.entry;
    if (i.guard >= 0) start = std::max<double>(start, w_.ready[static_cast<size_t>(i.guard)]);
    for (int k = i.writes; k < i.writes + i.reads; ++k) {
      start = std::max<double>(start, w_.ready[operands[k]]);
    }
    w_.start = start;
    w_.last_start = std::max(w_.last_start, start);
    w_.latency = i.latency;
    if (i.mask_operand != 0 && w_.block->checker != nullptr) {
      w_.block->checker->Mask(w_, i, mask);
    }
    i.execute(w_, i);
    if (i.kind != Kind::kOther) c.kind[static_cast<size_t>(i.kind)] += 1;
    if (i.flops > 0) CountFlops(i, mask);
    if (w_.block->checker != nullptr) {
      if (i.kind == Kind::kMatrix) steps_left_ -= static_cast<int64_t>(i.flops / kProductFlops);
      if (i.kind == Kind::kMatrixLoad) steps_left_ -= kTileSteps;
    }
    const auto done = static_cast<float>(start + w_.latency);
    for (int k = 0; k < i.writes; ++k) w_.ready[operands[k]] = done;
    if (i.flow == Flow::kWaitAsync) w_.entry = std::max(w_.entry, w_.clock);
  }
  w_.clock = std::max(w_.clock, w_.last_start);
  return Outcome::kDone;
}

void WarpRunner::CountFlops(const Instruction& i, uint32_t mask) {
  const double flops = i.flops * std::popcount(mask);
  switch (i.kind) {
    case Kind::kFloat32:
    case Kind::kSpecial: w_.counters.flops32 += flops; break;
    case Kind::kFloat64: w_.counters.flops64 += flops; break;
    case Kind::kHalf: w_.counters.flops16 += flops; break;
    default: break;
  }
}

void WarpRunner::Contribute(const Instruction& i, uint32_t mask) {
  const uint32_t predicate = w_.predicate(i, i.writes);
  const uint32_t holds = (i.detail != 0 ? ~predicate : predicate) & mask;
  w_.block->holds += w_.weight * std::popcount(holds);
  w_.block->fails += w_.weight * std::popcount(mask & ~holds);
  w_.reduction = &i;
  w_.reduced = mask;
}

void WarpRunner::End(uint32_t mask) {
  for (StackEntry& entry : w_.stack) entry.mask &= ~mask;
  while (!w_.stack.empty() && w_.stack.back().mask == 0) w_.stack.pop_back();
}

Outcome WarpRunner::Branch(const Instruction& i, StackEntry& top, uint32_t taken) {
  Counters& c = w_.counters;
  c.kind[static_cast<size_t>(Kind::kControl)] += 1;
  c.branches += 1;
  if (i.predicated) {
    w_.predicated_end = i.target;
    w_.predicate_ready = w_.ready[static_cast<size_t>(i.guard)];
  } else {
    if (i.guard >= 0) {
      w_.clock = std::max<double>(w_.clock, w_.ready[static_cast<size_t>(i.guard)]);
      w_.clock += w_.block->latencies.branch;
    }
    // ptxas reorders within a basic block, but a stalled instruction delays what follows the block.
    w_.clock = std::max(w_.clock, w_.last_start);
    w_.entry = w_.clock;
    w_.predicated_end = 0;
  }
  const uint32_t others = top.mask & ~taken;
  if (others == 0) {
    top.pc = i.target;
    return i.loop >= 0 ? EndIteration(w_, i, taken) : Outcome::kDone;
  }
  if (taken == 0) {
    if (i.loop >= 0) w_.loops[static_cast<size_t>(i.loop)].iterations = 0;
    ++top.pc;
    return Outcome::kDone;
  }
  c.divergent_branches += 1;
  const int32_t next = top.pc + 1;
  const int32_t meeting = i.reconverge;
  if (w_.stack.size() + 2 > kMaxStack) return Outcome::kSteps;
  top.pc = meeting;
  if (next != meeting) w_.stack.push_back({next, meeting, others});
  if (i.target != meeting) w_.stack.push_back({i.target, meeting, taken});
  return Outcome::kDone;
}

}  // namespace kernelcast::worker::virtual_gpu
