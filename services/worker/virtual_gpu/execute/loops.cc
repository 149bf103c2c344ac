#include "services/worker/virtual_gpu/execute/loops.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace kernelcast::worker::virtual_gpu {
namespace {

// Iterations of a loop before the rest is inferred, and the number of steady ones required.
constexpr int64_t kLoopWarmUp = 6;
constexpr int kSteady = 4;
// A loop that runs for this many iterations with no known end is waiting for something.
constexpr int64_t kEndlessIterations = 400;

int64_t Read(const Warp& w, uint16_t slot, int lane) {
  const Slot& at = w.kernel->slots[slot];
  const uint8_t* from = w.registers.data() + at.offset;
  if (at.kind == SlotClass::kLong) {
    return static_cast<int64_t>(reinterpret_cast<const LaneU64*>(from)[lane]);
  }
  return reinterpret_cast<const LaneS32*>(from)[lane];
}

void Advance(Warp& w, uint16_t slot, int lane, int64_t by) {
  if (w.kernel->slots[slot].kind == SlotClass::kLong) {
    reinterpret_cast<LaneU64*>(w.slot(slot))[lane] += static_cast<uint64_t>(by);
  } else {
    reinterpret_cast<LaneU32*>(w.slot(slot))[lane] += static_cast<uint32_t>(by);
  }
}

void Observe(Progress& progress, uint32_t mask, const auto& value_of) {
  bool same = true;
  ForLanes(mask, [&](int l) {
    const auto at = static_cast<size_t>(l);
    const int64_t value = value_of(l);
    const auto delta = static_cast<int64_t>(static_cast<uint64_t>(value) -
                                            static_cast<uint64_t>(progress.value[at]));
    same = same && delta == progress.delta[at];
    progress.delta[at] = delta;
    progress.value[at] = value;
  });
  progress.stable = same ? progress.stable + 1 : 0;
}

bool Holds(uint8_t comparison, bool is_unsigned, double a, double b) {
  static_cast<void>(is_unsigned);
  switch (comparison) {
    case 0: return a == b;
    case 1: return a != b;
    case 2: return a < b;
    case 3: return a <= b;
    case 4: return a > b;
    default: return a >= b;
  }
}

// Returns how many more iterations a comparison keeps its last result if both sides continue to
// change at the same rate; nullopt: for ever.
std::optional<double> Remaining(const DriverValues& driver, const Progress& left,
                                const Progress& right, size_t lane) {
  const auto real = [&](int64_t value) {
    return driver.is_unsigned ? static_cast<double>(static_cast<uint64_t>(value))
                              : static_cast<double>(value);
  };
  const double a = real(left.value[lane]);
  const double b = real(right.value[lane]);
  const double change =
      static_cast<double>(left.delta[lane]) - static_cast<double>(right.delta[lane]);
  const double gap = a - b;
  if (change == 0) return std::nullopt;
  const bool now = Holds(driver.comparison, driver.is_unsigned, a, b);
  switch (driver.comparison) {
    case 0:
    case 1: {
      if (gap == 0) return 0;  // equal now, different next time
      const double steps = -gap / change;
      if (steps < 0 || steps != std::floor(steps)) return std::nullopt;
      return steps - 1;
    }
    default: {
      // The sign of the gap decides; it changes after this many steps.
      const double steps = -gap / change;
      if (steps < 0) return std::nullopt;
      double n = std::floor(steps);
      // The exact step may be the last with the old result or the first with the new one.
      while (n > 0 && Holds(driver.comparison, driver.is_unsigned, gap + n * change, 0) != now) {
        n -= 1;
      }
      return n;
    }
  }
}

// Skips all but the last two iterations: extrapolates registers and counts from the executed
// ones.
void Skip(Warp& w, const LoopInfo& info, LoopState& loop, uint32_t mask) {
  double least = 1e15;
  bool found = false;
  for (size_t k = 0; k < info.drivers.size(); ++k) {
    const Progress& left = loop.drivers[2 * k];
    const Progress& right = loop.drivers[2 * k + 1];
    if (left.stable < kSteady || right.stable < kSteady) continue;
    const DriverValues& driver = w.drivers[static_cast<size_t>(info.drivers[k])];
    ForLanes(mask, [&](int l) {
      const auto remaining = Remaining(driver, left, right, static_cast<size_t>(l));
      if (!remaining) return;
      found = true;
      least = std::min(least, *remaining);
    });
  }
  const double skipped = std::floor(least - 2);
  if (!found || skipped < 4) {
    // The end is near: skipping gains nothing more in this run of the loop.
    if (found) loop.iterations = kLoopWarmUp;
    return;
  }
  const auto n = static_cast<int64_t>(skipped);
  for (size_t k = 0; k < info.carried.size(); ++k) {
    if (loop.carried[k].stable < kSteady) continue;
    ForLanes(mask, [&](int l) {
      const auto at = static_cast<size_t>(l);
      const auto by = static_cast<int64_t>(static_cast<uint64_t>(loop.carried[k].delta[at]) *
                                           static_cast<uint64_t>(n));
      Advance(w, info.carried[k], l, by);
      loop.carried[k].value[at] = static_cast<int64_t>(
          static_cast<uint64_t>(loop.carried[k].value[at]) + static_cast<uint64_t>(by));
    });
  }
  const auto observed = static_cast<double>(loop.iterations - loop.snapshot_iteration);
  Counters more = w.counters;
  more.Add(loop.snapshot, -1);
  const double scale = skipped / std::max(1.0, observed);
  w.counters.Add(more, scale);
  w.counters.skipped += more.instructions * scale;
  const double cycles = (w.clock - loop.snapshot_clock) * scale;
  for (float& ready : w.ready) {
    // Pending results keep their remaining latency.
    if (ready > loop.snapshot_clock) ready += static_cast<float>(cycles);
  }
  w.clock += cycles;
  w.entry += cycles;
  w.predicate_ready += cycles;
  w.last_start += cycles;
  if (w.async_ready > loop.snapshot_clock) w.async_ready += cycles;
  for (double& group : w.async_groups) {
    if (group > loop.snapshot_clock) group += cycles;
  }
  loop.iterations = 1;  // observe again before the next skip
  for (Progress& progress : loop.drivers) progress.stable = -1000;
}

}  // namespace

Outcome EndIteration(Warp& w, const Instruction& i, uint32_t mask) {
  const LoopInfo& info = w.kernel->loops[static_cast<size_t>(i.loop)];
  LoopState& loop = w.loops[static_cast<size_t>(i.loop)];
  if (loop.iterations == 0 || loop.mask != mask) {
    loop.iterations = 0;
    loop.mask = mask;
    loop.carried.assign(info.carried.size(), {});
    loop.drivers.assign(2 * info.drivers.size(), {});
  }
  ++loop.iterations;
  for (size_t k = 0; k < info.carried.size(); ++k) {
    Observe(loop.carried[k], mask, [&](int l) { return Read(w, info.carried[k], l); });
  }
  bool known = false;
  for (size_t k = 0; k < info.drivers.size(); ++k) {
    const DriverValues& driver = w.drivers[static_cast<size_t>(info.drivers[k])];
    if (!driver.seen) continue;
    Observe(loop.drivers[2 * k], mask, [&](int l) { return driver.left[static_cast<size_t>(l)]; });
    Observe(loop.drivers[2 * k + 1], mask,
            [&](int l) { return driver.right[static_cast<size_t>(l)]; });
    known = known ||
            (loop.drivers[2 * k].stable >= kSteady && loop.drivers[2 * k + 1].stable >= kSteady);
  }
  if (loop.iterations == 2) {
    loop.snapshot = w.counters;
    loop.snapshot_clock = w.clock;
    loop.snapshot_iteration = 2;
  }
  // Skipping leaves memory in a state that no execution produces, so checks do not skip.
  if (w.block->checker != nullptr) {
    return loop.iterations > kEndlessIterations && !known ? Outcome::kEndless : Outcome::kDone;
  }
  if (loop.iterations >= kLoopWarmUp && known) Skip(w, info, loop, mask);
  return loop.iterations > kEndlessIterations ? Outcome::kEndless : Outcome::kDone;
}

}  // namespace kernelcast::worker::virtual_gpu
