#include "services/worker/cuda/ptx/simulator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "services/worker/cuda/ptx/warp.h"

namespace kernelcast::worker::ptx {
namespace {

uint64_t Mix(uint64_t x) {
  x *= 0x9e3779b97f4a7c15;
  return x ^ x >> 29;
}

// Iterations of a loop before the rest is inferred, and the number of steady ones required.
constexpr int64_t kLoopWarmUp = 6;
constexpr int kSteady = 4;
// A loop that runs for this many iterations with no known end is waiting for something.
constexpr int64_t kEndlessIterations = 400;
constexpr size_t kMaxStack = 512;
constexpr int64_t kTurn = 4000;  // steps of a warp before the next one runs

enum class Outcome : uint8_t { kDone, kSteps, kEndless };

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

class WarpRunner {
 public:
  WarpRunner(Warp& warp, int64_t& steps_left) : w_(warp), steps_left_(steps_left) {}

  // Runs until the warp ends, waits at a barrier, or has used its turn.
  Outcome Run() {
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
      ++top.pc;
      if (mask == 0) continue;
      w_.active = mask;
      const uint16_t* operands = w_.operands(i);
      double start = w_.entry;
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
      const auto done = static_cast<float>(start + w_.latency);
      for (int k = 0; k < i.writes; ++k) w_.ready[operands[k]] = done;
      if (i.flow == Flow::kWaitAsync) w_.entry = std::max(w_.entry, w_.clock);
    }
    w_.clock = std::max(w_.clock, w_.last_start);
    return Outcome::kDone;
  }

 private:
  void CountFlops(const Instruction& i, uint32_t mask) {
    const double flops = i.flops * std::popcount(mask);
    switch (i.kind) {
      case Kind::kFloat32:
      case Kind::kSpecial: w_.counters.flops32 += flops; break;
      case Kind::kFloat64: w_.counters.flops64 += flops; break;
      case Kind::kHalf: w_.counters.flops16 += flops; break;
      default: break;
    }
  }

  // Adds to the result of a barrier, for all warps that this one represents.
  void Contribute(const Instruction& i, uint32_t mask) {
    const uint32_t predicate = w_.predicate(i, i.writes);
    const uint32_t holds = (i.detail != 0 ? ~predicate : predicate) & mask;
    w_.block->holds += w_.weight * std::popcount(holds);
    w_.block->fails += w_.weight * std::popcount(mask & ~holds);
    w_.reduction = &i;
    w_.reduced = mask;
  }

  void End(uint32_t mask) {
    for (StackEntry& entry : w_.stack) entry.mask &= ~mask;
    while (!w_.stack.empty() && w_.stack.back().mask == 0) w_.stack.pop_back();
  }

  Outcome Branch(const Instruction& i, StackEntry& top, uint32_t taken) {
    Counters& c = w_.counters;
    c.kind[static_cast<size_t>(Kind::kControl)] += 1;
    c.branches += 1;
    if (i.guard >= 0) {
      w_.clock = std::max<double>(w_.clock, w_.ready[static_cast<size_t>(i.guard)]);
      w_.clock += w_.block->latencies.branch;
    }
    // ptxas reorders within a basic block, but a stalled instruction delays what follows the block.
    w_.clock = std::max(w_.clock, w_.last_start);
    w_.entry = w_.clock;
    const uint32_t others = top.mask & ~taken;
    if (others == 0) {
      top.pc = i.target;
      return i.loop >= 0 ? Again(i, taken) : Outcome::kDone;
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

  // Called at the end of an iteration that is not the last.
  Outcome Again(const Instruction& i, uint32_t mask) {
    const LoopInfo& info = w_.kernel->loops[static_cast<size_t>(i.loop)];
    LoopState& loop = w_.loops[static_cast<size_t>(i.loop)];
    if (loop.iterations == 0 || loop.mask != mask) {
      loop.iterations = 0;
      loop.mask = mask;
      loop.carried.assign(info.carried.size(), {});
      loop.drivers.assign(2 * info.drivers.size(), {});
    }
    ++loop.iterations;
    for (size_t k = 0; k < info.carried.size(); ++k) {
      Observe(loop.carried[k], mask, [&](int l) { return Read(w_, info.carried[k], l); });
    }
    bool known = false;
    for (size_t k = 0; k < info.drivers.size(); ++k) {
      const DriverValues& driver = w_.drivers[static_cast<size_t>(info.drivers[k])];
      if (!driver.seen) continue;
      Observe(loop.drivers[2 * k], mask,
              [&](int l) { return driver.left[static_cast<size_t>(l)]; });
      Observe(loop.drivers[2 * k + 1], mask,
              [&](int l) { return driver.right[static_cast<size_t>(l)]; });
      known = known ||
              (loop.drivers[2 * k].stable >= kSteady && loop.drivers[2 * k + 1].stable >= kSteady);
    }
    if (loop.iterations == 2) {
      loop.snapshot = w_.counters;
      loop.snapshot_clock = w_.clock;
      loop.snapshot_iteration = 2;
    }
    // Skipping leaves memory in a state that no execution produces, so checks do not skip.
    if (w_.block->checker != nullptr) {
      return loop.iterations > kEndlessIterations && !known ? Outcome::kEndless : Outcome::kDone;
    }
    if (loop.iterations >= kLoopWarmUp && known) Skip(info, loop, mask);
    return loop.iterations > kEndlessIterations ? Outcome::kEndless : Outcome::kDone;
  }

  // Skips all but the last two iterations: extrapolates registers and counts from the executed
  // ones.
  void Skip(const LoopInfo& info, LoopState& loop, uint32_t mask) {
    double least = 1e15;
    bool found = false;
    for (size_t k = 0; k < info.drivers.size(); ++k) {
      const Progress& left = loop.drivers[2 * k];
      const Progress& right = loop.drivers[2 * k + 1];
      if (left.stable < kSteady || right.stable < kSteady) continue;
      const DriverValues& driver = w_.drivers[static_cast<size_t>(info.drivers[k])];
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
        Advance(w_, info.carried[k], l, by);
        loop.carried[k].value[at] = static_cast<int64_t>(
            static_cast<uint64_t>(loop.carried[k].value[at]) + static_cast<uint64_t>(by));
      });
    }
    const auto observed = static_cast<double>(loop.iterations - loop.snapshot_iteration);
    Counters more = w_.counters;
    more.Add(loop.snapshot, -1);
    const double scale = skipped / std::max(1.0, observed);
    w_.counters.Add(more, scale);
    w_.counters.skipped += more.instructions * scale;
    const double cycles = (w_.clock - loop.snapshot_clock) * scale;
    for (float& ready : w_.ready) {
      // Pending results keep their remaining latency.
      if (ready > loop.snapshot_clock) ready += static_cast<float>(cycles);
    }
    w_.clock += cycles;
    w_.entry += cycles;
    w_.last_start += cycles;
    if (w_.async_ready > loop.snapshot_clock) w_.async_ready += cycles;
    for (double& group : w_.async_groups) {
      if (group > loop.snapshot_clock) group += cycles;
    }
    loop.iterations = 1;  // observe again before the next skip
    for (Progress& progress : loop.drivers) progress.stable = -1000;
  }

  Warp& w_;
  int64_t& steps_left_;
};

struct BlockResult {
  Outcome outcome = Outcome::kDone;
  Counters counters;  // of the block
  double cycles = 0;
  double hottest_shared = 0;
  Waits waits = Waits::kNever;
  int warps = 0;  // executed
};

class LaunchRunner {
 public:
  LaunchRunner(const Kernel& kernel, const LaunchSpec& launch, const SimulationLimits& limits,
               GlobalMemory& memory)
      : kernel_(kernel), launch_(launch), limits_(limits), memory_(memory) {}

  // Returns why the launch cannot be executed, or "".
  std::string Prepare() {
    if (!kernel_.not_covered.empty()) return kernel_.not_covered;
    const int64_t threads = launch_.threads();
    if (threads < 1 || threads > 1024) return "a block of invalid size";
    warps_ = static_cast<int>((threads + kWarpLanes - 1) / kWarpLanes);
    const int64_t shared = kernel_.shared_bytes + launch_.dynamic_shared_bytes + 1024;
    if (shared > limits_.max_shared_bytes + 1024) return "more shared memory than there is";
    if (launch_.arguments.size() != kernel_.parameters.size()) {
      return "arguments that do not match the kernel";
    }
    const int64_t each = kernel_.register_bytes + 32 * kernel_.local_bytes;
    max_warps_ = static_cast<int>(
        std::clamp<int64_t>(limits_.max_register_bytes / std::max<int64_t>(each, 1), 0, warps_));
    if (max_warps_ == 0) return "too many registers";
    parameters_.assign(static_cast<size_t>(kernel_.parameter_bytes), 0);
    for (size_t k = 0; k < launch_.arguments.size(); ++k) {
      const LaunchArgument& argument = launch_.arguments[k];
      const ParameterInfo& parameter = kernel_.parameters[k];
      uint64_t bits = argument.bits;
      if (argument.is_buffer) bits += GlobalMemory::AddressOf(argument.buffer);
      if (parameter.bytes > 8) return "a structure as an argument";
      std::memcpy(parameters_.data() + parameter.offset, &bits,
                  static_cast<size_t>(parameter.bytes));
    }
    block_.memory = &memory_;
    block_.parameters = parameters_;
    block_.shared.resize(static_cast<size_t>(shared));
    block_.global_atomics = &atomics_;
    block_.global_atomic_ns = &atomic_ns_;
    block_.published = &published_;
    // Approximates an H200: how many blocks share a multiprocessor and its cache.
    const double resident = std::clamp(std::floor(2048.0 / static_cast<double>(threads)), 1.0,
                                       std::max(1.0, std::ceil(launch_.blocks() / 132)));
    const double cache = std::max(16e3, 200e3 - resident * static_cast<double>(shared));
    block_.l1_lines = static_cast<size_t>(cache / resident / 128);
    block_.warps = warps_;
    block_.local_in_l1 = resident * static_cast<double>(threads * kernel_.local_bytes) < cache;
    return "";
  }

  // Executes blocks with all their warps and no inference: all blocks in order if the steps
  // suffice, otherwise the first ones, the last ones and some in between.
  LaunchCheck Check(const Program& program, std::span<const BufferSpec> buffers) {
    LaunchCheck check;
    check.kernel = launch_.kernel;
    if (max_warps_ < warps_) {
      check.not_checked = "a block with more registers than the limit";
      return check;
    }
    const int64_t shared = kernel_.dynamic_shared_at + launch_.dynamic_shared_bytes;
    Checker checker(program, kernel_, launch_, buffers, memory_, shared);
    block_.checker = &checker;
    steps_left_ = limits_.launch_steps;
    const auto blocks = static_cast<uint64_t>(launch_.blocks());
    const auto at = [&](uint64_t block) {
      const uint64_t x = launch_.grid[0];
      const uint64_t y = launch_.grid[1];
      return std::array<uint32_t, 3>{static_cast<uint32_t>(block % x),
                                     static_cast<uint32_t>(block / x % y),
                                     static_cast<uint32_t>(block / (x * y))};
    };
    const auto run = [&](uint64_t block) {
      checker.BeginBlock(at(block));
      const BlockResult result = RunBlock(at(block), steps_left_, warps_);
      ++check.blocks;
      if (result.outcome == Outcome::kEndless) {
        check.not_checked = "a loop that waits for something that never happens";
      } else if (result.outcome == Outcome::kSteps) {
        check.not_checked = "more steps than the limit";
      }
      return result.outcome == Outcome::kDone;
    };
    bool going = run(0);
    const int64_t each = std::max<int64_t>(1, limits_.launch_steps - steps_left_);
    if (going && blocks > 1) {
      const auto affordable = static_cast<uint64_t>(steps_left_ / each);
      if (blocks - 1 <= affordable) {
        for (uint64_t block = 1; going && block < blocks; ++block) going = run(block);
      } else {
        const uint64_t some = std::max<uint64_t>(1, std::min<uint64_t>(affordable, 6));
        for (uint64_t k = 1; going && k <= some; ++k) {
          going = run(k == 1 ? blocks - 1 : blocks - 1 - (k - 1) * (blocks - 1) / some);
        }
      }
    }
    block_.checker = nullptr;
    check.complete = going && static_cast<uint64_t>(check.blocks) == blocks;
    check.steps = limits_.launch_steps - steps_left_;
    check.findings = checker.Findings();
    if (check.not_checked.empty()) check.not_checked = checker.not_checked();
    return check;
  }

  LaunchCounts Run() {
    LaunchCounts counts;
    counts.kernel = launch_.kernel;
    counts.blocks = launch_.blocks();
    counts.warps = warps_;
    counts.static_instructions = static_cast<double>(kernel_.instructions.size());
    counts.local_bytes = static_cast<double>(kernel_.local_bytes);
    steps_left_ = limits_.launch_steps;
    Sample(counts);
    counts.steps = limits_.launch_steps - steps_left_;
    return counts;
  }

 private:
  struct Position {
    std::array<uint32_t, 3> at = {0, 0, 0};
    double weight = 1;
    friend bool operator==(const Position& a, const Position& b) { return a.at == b.at; }
  };

  static std::array<uint32_t, 3> At(const LaunchSpec& launch, double share) {
    std::array<uint32_t, 3> at{};
    for (size_t d = 0; d < 3; ++d) {
      at[d] = std::min(launch.grid[d] - 1,
                       static_cast<uint32_t>(share * static_cast<double>(launch.grid[d])));
    }
    return at;
  }

  void Sample(LaunchCounts& counts) {
    // Start with a block from the middle, which represents most blocks.
    const GlobalMemory before = memory_;
    BlockResult middle = RunBlock(At(launch_, 0.5), steps_left_ / 3, warps_);
    int chosen = warps_;
    // Use two warps or one if all are too many.
    for (const int fewer : {2, 1}) {
      if (middle.outcome != Outcome::kSteps || fewer >= chosen) continue;
      memory_ = before;
      atomics_.Clear();
      atomic_ns_.Clear();
      published_.Clear();
      chosen = fewer;
      steps_left_ = limits_.launch_steps;
      middle = RunBlock(At(launch_, 0.5), steps_left_ / (fewer == 1 ? 1 : 2), chosen);
    }
    if (middle.outcome != Outcome::kDone && launch_.blocks() > 1) {
      // The block may wait for earlier ones, so run the first blocks in order. Blocks that end do
      // so soon; a block that is merely long has used its steps.
      const int64_t steps =
          middle.outcome == Outcome::kSteps ? limits_.launch_steps / 6 : limits_.launch_steps;
      if (InOrder(before, steps, counts)) return;
    }
    if (middle.outcome != Outcome::kDone) {
      counts.not_covered = middle.outcome == Outcome::kEndless
                               ? "a loop that waits for something that never happens"
                               : "more steps than the limit";
      return;
    }
    std::vector<std::pair<BlockResult, double>> results;
    std::vector<Position> seen = {{At(launch_, 0.5), 1}};
    results.emplace_back(middle, 1);
    const int64_t each = std::max<int64_t>(1, limits_.launch_steps - steps_left_);
    // The first and the last block represent themselves, another inner block represents half of the
    // rest.
    const std::array<uint32_t, 3> last = {launch_.grid[0] - 1, launch_.grid[1] - 1,
                                          launch_.grid[2] - 1};
    double inner = 1;
    double edges = 0;
    const std::pair<std::array<uint32_t, 3>, bool> more[] = {
        {last, false}, {At(launch_, 0.31), true}, {{0, 0, 0}, false}};
    for (const auto& [at, is_inner] : more) {
      const Position position{at, 1};
      if (std::find(seen.begin(), seen.end(), position) != seen.end()) continue;
      if (steps_left_ < each * 5 / 4) break;
      seen.push_back(position);
      BlockResult result = RunBlock(at, steps_left_, chosen);
      if (result.outcome != Outcome::kDone) break;
      results.emplace_back(std::move(result), is_inner ? 1 : -1);
      (is_inner ? inner : edges) += 1;
    }
    const double blocks = launch_.blocks();
    const double share = std::max(1.0, blocks - edges) / inner;
    double inner_cycles = 0;
    for (auto& [result, role] : results) {
      const double weight = role < 0 ? 1 : share;
      counts.counters.Add(result.counters, weight);
      if (role > 0) inner_cycles += result.cycles / inner;
      counts.hottest_shared = std::max(counts.hottest_shared, result.hottest_shared);
      counts.sampled_warps += result.warps;
      counts.waits = std::max(counts.waits, result.waits);
    }
    counts.block_cycles = inner_cycles;
    counts.sampled_blocks = static_cast<int>(results.size());
    counts.hottest_global = atomics_.largest() * blocks / static_cast<double>(results.size());
    counts.hottest_global_ns = atomic_ns_.largest() * blocks / static_cast<double>(results.size());
  }

  bool InOrder(const GlobalMemory& before, int64_t block_steps, LaunchCounts& counts) {
    memory_ = before;
    atomics_.Clear();
    atomic_ns_.Clear();
    published_.Clear();
    steps_left_ = limits_.launch_steps;
    std::vector<BlockResult> results;
    for (uint32_t x = 0; x < std::min<uint32_t>(launch_.grid[0], 3); ++x) {
      BlockResult result = RunBlock({x, 0, 0}, std::min(block_steps, steps_left_), max_warps_);
      if (result.outcome != Outcome::kDone) break;
      results.push_back(std::move(result));
    }
    if (results.empty()) return false;
    const BlockResult& usual = results.back();
    counts.counters.Add(usual.counters, launch_.blocks());
    counts.block_cycles = usual.cycles;
    counts.hottest_shared = usual.hottest_shared;
    counts.waits = usual.waits;
    counts.sampled_blocks = static_cast<int>(results.size());
    counts.sampled_warps = usual.warps * counts.sampled_blocks;
    counts.hottest_global =
        atomics_.largest() * launch_.blocks() / static_cast<double>(results.size());
    counts.hottest_global_ns =
        atomic_ns_.largest() * launch_.blocks() / static_cast<double>(results.size());
    return true;
  }

  // Call it before the warp's first instruction: an abandoned block has warps that never start. The
  // registers of large programs take many megabytes, so values that no program may rely on are left
  // from an earlier block, and constants stay in place.
  void Begin(Warp& w, const std::array<uint32_t, 3>& at) {
    w.begun = true;
    w.local_written.clear();
    w.local.assign(static_cast<size_t>(32 * kernel_.local_bytes), 0);
    w.arguments.assign(static_cast<size_t>(32 * kernel_.argument_bytes), 0);
    w.ready.assign(kernel_.slots.size(), 0);
    w.loops.resize(kernel_.loops.size());
    w.drivers.resize(static_cast<size_t>(kernel_.drivers));
    const bool holds_constants = w.holds == w.number;
    if (!holds_constants) w.registers.assign(static_cast<size_t>(kernel_.register_bytes), 0);
    w.holds = w.number;
    const int64_t first = int64_t{w.number} * kWarpLanes;
    for (const SlotValue& value : kernel_.values) {
      if (holds_constants && !DiffersByBlock(value.source)) continue;
      if (kernel_.slots[value.slot].kind == SlotClass::kPredicate) {
        w.mask_of(value.slot) = value.bits != 0 ? ~uint32_t{0} : 0;
        continue;
      }
      const auto fill = [&](auto* lanes) {
        using Word = std::remove_pointer_t<decltype(lanes)>;
        if (!DiffersByLane(value.source)) {
          std::fill_n(lanes, kWarpLanes, static_cast<Word>(ValueOf(value, at, w.number, 0, first)));
          return;
        }
        for (int l = 0; l < kWarpLanes; ++l) {
          lanes[l] = static_cast<Word>(ValueOf(value, at, w.number, l, first + l));
        }
      };
      if (kernel_.slots[value.slot].kind == SlotClass::kLong) {
        fill(reinterpret_cast<LaneU64*>(w.slot(value.slot)));
      } else {
        fill(reinterpret_cast<LaneU32*>(w.slot(value.slot)));
      }
    }
  }

  static bool DiffersByBlock(SlotValue::Source source) {
    using Source = SlotValue::Source;
    return source == Source::kBlockX || source == Source::kBlockY || source == Source::kBlockZ ||
           source == Source::kMultiprocessor;
  }

  static bool DiffersByLane(SlotValue::Source source) {
    using Source = SlotValue::Source;
    switch (source) {
      case Source::kThreadX:
      case Source::kThreadY:
      case Source::kThreadZ:
      case Source::kLane:
      case Source::kMaskEqual:
      case Source::kMaskLess:
      case Source::kMaskLessEqual:
      case Source::kMaskGreater:
      case Source::kMaskGreaterEqual: return true;
      default: return false;
    }
  }

  uint64_t ValueOf(const SlotValue& value, const std::array<uint32_t, 3>& at, int warp, int lane,
                   int64_t thread) const {
    using Source = SlotValue::Source;
    const uint32_t bit = uint32_t{1} << lane;
    switch (value.source) {
      case Source::kImmediate: return value.bits;
      case Source::kThreadX: return static_cast<uint64_t>(thread % launch_.block[0]);
      case Source::kThreadY:
        return static_cast<uint64_t>(thread / launch_.block[0] % launch_.block[1]);
      case Source::kThreadZ:
        return static_cast<uint64_t>(thread / (int64_t{launch_.block[0]} * launch_.block[1]));
      case Source::kBlockSizeX: return launch_.block[0];
      case Source::kBlockSizeY: return launch_.block[1];
      case Source::kBlockSizeZ: return launch_.block[2];
      case Source::kBlockX: return at[0];
      case Source::kBlockY: return at[1];
      case Source::kBlockZ: return at[2];
      case Source::kGridX: return launch_.grid[0];
      case Source::kGridY: return launch_.grid[1];
      case Source::kGridZ: return launch_.grid[2];
      case Source::kLane: return static_cast<uint64_t>(lane);
      case Source::kWarpIndex: return static_cast<uint64_t>(warp);
      case Source::kWarpsInBlock: return static_cast<uint64_t>(warps_);
      case Source::kMultiprocessor: return at[0] % 100;
      case Source::kMultiprocessors: return 100;
      case Source::kMaskEqual: return bit;
      case Source::kMaskLess: return bit - 1;
      case Source::kMaskLessEqual: return bit | (bit - 1);
      case Source::kMaskGreater: return ~(bit | (bit - 1));
      case Source::kMaskGreaterEqual: return ~(bit - 1);
      case Source::kDynamicShared: return static_cast<uint64_t>(launch_.dynamic_shared_bytes);
      case Source::kTotalShared:
        return static_cast<uint64_t>(launch_.dynamic_shared_bytes + kernel_.shared_bytes);
      case Source::kClusterBlocks: return 1;
      case Source::kClusterRank:
      case Source::kZero: return 0;
    }
    return 0;
  }

  BlockResult RunBlock(const std::array<uint32_t, 3>& at, int64_t budget, int wanted) {
    BlockResult result;
    const int count = std::min(wanted, max_warps_);
    warps_state_.resize(static_cast<size_t>(count));
    std::fill(block_.shared.begin(), block_.shared.end(), uint8_t{0});
    block_.reads.Clear();
    block_.writes.Clear();
    block_.shared_atomics.Clear();
    block_.publishes = false;
    block_.holds = block_.fails = 0;
    block_.waits = Waits::kNever;
    ++block_.number;
    for (int k = 0; k < count; ++k) {
      Warp& w = warps_state_[static_cast<size_t>(k)];
      w.Reset();
      const int index = count == warps_ ? k
                        : count == 1    ? warps_ / 2
                                        : k * (warps_ - 1) / (count - 1);
      w.number = index;
      w.kernel = &kernel_;
      w.block = &block_;
      w.stack.push_back({0, -1, MaskOf(index)});
      // If only a few warps run, the first one represents just itself, since it may do the work
      // that only one warp does.
      w.weight = count == warps_ ? 1
                 : count == 1    ? warps_
                 : k == 0        ? 1
                                 : static_cast<double>(warps_ - 1) / (count - 1);
    }
    int64_t left = std::min(budget, steps_left_);
    const int64_t given = left;
    result.outcome = RunWarps(at, left);
    steps_left_ -= given - std::max<int64_t>(left, 0);
    for (Warp& w : warps_state_) {
      result.counters.Add(w.counters, w.weight);
      result.cycles = std::max(result.cycles, w.clock);
    }
    result.hottest_shared = block_.shared_atomics.largest();
    result.waits = block_.waits;
    result.warps = count;
    return result;
  }

  uint32_t MaskOf(int index) const {
    const int64_t lanes = launch_.threads() - int64_t{index} * kWarpLanes;
    return lanes >= kWarpLanes ? ~uint32_t{0} : (uint32_t{1} << lanes) - 1;
  }

  Outcome RunWarps(const std::array<uint32_t, 3>& at, int64_t& left) {
    for (;;) {
      bool any = false;
      for (Warp& w : warps_state_) {
        if (w.done() || w.waiting) continue;
        any = true;
        if (!w.begun) Begin(w, at);
        const Outcome outcome = WarpRunner(w, left).Run();
        if (outcome != Outcome::kDone) return outcome;
      }
      if (any) continue;
      // All remaining warps wait: open the barrier.
      double latest = 0;
      bool waiting = false;
      for (const Warp& w : warps_state_) {
        if (!w.waiting) continue;
        waiting = true;
        latest = std::max(latest, w.clock);
      }
      if (!waiting) return Outcome::kDone;
      bool opened = false;
      for (Warp& w : warps_state_) {
        if (!w.waiting) continue;
        w.waiting = false;
        if (!opened && block_.checker != nullptr) block_.checker->Barrier();
        opened = true;
        w.clock = latest + block_.latencies.barrier +
                  block_.latencies.barrier_warp * static_cast<float>(warps_);
        w.entry = w.clock;
        if (w.reduction != nullptr) Reduce(w);
      }
      block_.holds = block_.fails = 0;
    }
  }

  // Gives a warp the result of the barrier that has opened.
  void Reduce(Warp& w) const {
    const Instruction& i = *std::exchange(w.reduction, nullptr);
    if (static_cast<BarrierReduction>(i.code) == BarrierReduction::kCount) {
      auto* const to = w.lanes<LaneU32>(i, 0);
      ForLanes(w.reduced, [&](int l) { to[l] = static_cast<uint32_t>(block_.holds); });
    } else {
      const bool result = static_cast<BarrierReduction>(i.code) == BarrierReduction::kAll
                              ? block_.fails == 0
                              : block_.holds > 0;
      uint32_t& to = w.predicate(i, 0);
      to = result ? to | w.reduced : to & ~w.reduced;
    }
    w.ready[w.operands(i)[0]] = static_cast<float>(w.clock);
  }

  const Kernel& kernel_;
  const LaunchSpec& launch_;
  const SimulationLimits& limits_;
  GlobalMemory& memory_;
  int warps_ = 0;
  int max_warps_ = 0;
  int64_t steps_left_ = 0;
  std::vector<uint8_t> parameters_;
  BlockState block_;
  AddressCounts atomics_;
  AddressCounts atomic_ns_;
  PublishedWords published_;
  std::vector<Warp> warps_state_;
};

}  // namespace

size_t Footprint::Locate(uint64_t line) const {
  const size_t mask = keys_.size() - 1;
  size_t at = Mix(line) >> 20 & mask;
  while (keys_[at] != 0 && keys_[at] != line + 1) at = (at + 1) & mask;
  return at;
}

int HalvesOf(uint32_t sectors) {
  return ((sectors & 3) != 0 ? 1 : 0) + ((sectors & 12) != 0 ? 1 : 0);
}

Footprint::Touched Footprint::Touch(uint64_t line, uint32_t sectors, float now) {
  size_t at = Locate(line);
  if (keys_[at] == 0) {
    if (used_ * 2 >= keys_.size()) {
      if (keys_.size() >= capacity_) return {std::popcount(sectors), HalvesOf(sectors), now};
      Footprint larger(capacity_, keys_.size() * 4);
      for (size_t k = 0; k < keys_.size(); ++k) {
        if (keys_[k] == 0) continue;
        const size_t to = larger.Locate(keys_[k] - 1);
        larger.keys_[to] = keys_[k];
        larger.sectors_[to] = sectors_[k];
        larger.touched_[to] = touched_[k];
      }
      keys_ = std::move(larger.keys_);
      sectors_ = std::move(larger.sectors_);
      touched_ = std::move(larger.touched_);
      at = Locate(line);
    }
    keys_[at] = line + 1;
    ++used_;
  }
  const uint32_t before = sectors_[at];
  const Touched touched = {std::popcount(sectors & ~before),
                           HalvesOf(before | sectors) - HalvesOf(before), touched_[at]};
  sectors_[at] = static_cast<uint8_t>(before | sectors);
  touched_[at] = now;
  return touched;
}

void Footprint::Clear() {
  if (used_ == 0) return;
  std::fill(keys_.begin(), keys_.end(), 0);
  std::fill(sectors_.begin(), sectors_.end(), uint8_t{0});
  used_ = 0;
}

void AddressCounts::Add(uint64_t address, double count) {
  if (keys_.empty()) {
    keys_.assign(kCapacity, 0);
    counts_.assign(kCapacity, 0);
  }
  const size_t mask = keys_.size() - 1;
  size_t at = Mix(address) >> 20 & mask;
  while (keys_[at] != 0 && keys_[at] != address + 1) at = (at + 1) & mask;
  if (keys_[at] == 0) {
    if (used_ * 2 >= keys_.size()) return;
    keys_[at] = address + 1;
    ++used_;
  }
  counts_[at] += count;
  largest_ = std::max(largest_, counts_[at]);
}

void AddressCounts::Clear() {
  keys_.clear();
  counts_.clear();
  used_ = 0;
  largest_ = 0;
}

std::vector<LaunchCounts> Simulate(const Program& program, std::span<const BufferSpec> buffers,
                                   std::span<const LaunchSpec> launches,
                                   const SimulationLimits& limits) {
  GlobalMemory memory(buffers, program);
  return Simulate(program, launches, limits, memory);
}

std::vector<LaunchCounts> Simulate(const Program& program, std::span<const LaunchSpec> launches,
                                   const SimulationLimits& limits, GlobalMemory& memory) {
  std::vector<LaunchCounts> all;
  int64_t left = limits.total_steps;
  for (const LaunchSpec& launch : launches) {
    LaunchCounts counts;
    counts.kernel = launch.kernel;
    const Kernel* kernel = program.Find(launch.kernel);
    if (static_cast<int64_t>(all.size()) >= limits.max_launches) {
      counts.not_covered = "more launches than the limit";
    } else if (kernel == nullptr) {
      counts.not_covered = "no such kernel in the PTX";
    } else {
      SimulationLimits own = limits;
      own.launch_steps = std::min(limits.launch_steps, left);
      LaunchRunner runner(*kernel, launch, own, memory);
      counts.not_covered = runner.Prepare();
      if (counts.not_covered.empty()) {
        counts = runner.Run();
        left -= counts.steps;
      }
    }
    all.push_back(std::move(counts));
  }
  return all;
}

std::vector<LaunchCheck> Check(const Program& program, std::span<const BufferSpec> buffers,
                               std::span<const LaunchSpec> launches,
                               const SimulationLimits& limits) {
  GlobalMemory memory(buffers, program);
  std::vector<LaunchCheck> all;
  int64_t left = limits.total_steps;
  bool known = true;  // whether earlier launches' outputs are known
  for (const LaunchSpec& launch : launches) {
    LaunchCheck check;
    check.kernel = launch.kernel;
    const Kernel* kernel = program.Find(launch.kernel);
    if (static_cast<int64_t>(all.size()) >= limits.max_launches) {
      check.not_checked = "more launches than the limit";
    } else if (kernel == nullptr) {
      check.not_checked = "no such kernel in the PTX";
    } else if (!known) {
      check.not_checked = "an earlier launch was not executed to its end";
    } else {
      SimulationLimits own = limits;
      own.launch_steps = std::min(limits.launch_steps, left);
      LaunchRunner runner(*kernel, launch, own, memory);
      check.not_checked = runner.Prepare();
      if (check.not_checked.empty()) {
        check = runner.Check(program, buffers);
        left -= check.steps;
      }
    }
    known = known && check.complete;
    all.push_back(std::move(check));
  }
  return all;
}

}  // namespace kernelcast::worker::ptx
