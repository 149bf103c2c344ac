#include "services/worker/virtual_gpu/execute/launch_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "services/worker/virtual_gpu/execute/checker.h"
#include "services/worker/virtual_gpu/execute/warp_runner.h"

namespace kernelcast::worker::virtual_gpu {
namespace {

bool DiffersByBlock(SlotValue::Source source) {
  using Source = SlotValue::Source;
  return source == Source::kBlockX || source == Source::kBlockY || source == Source::kBlockZ ||
         source == Source::kMultiprocessor;
}

bool DiffersByLane(SlotValue::Source source) {
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

std::array<uint32_t, 3> At(const LaunchSpec& launch, double share) {
  std::array<uint32_t, 3> at{};
  for (size_t d = 0; d < 3; ++d) {
    at[d] = std::min(launch.grid[d] - 1,
                     static_cast<uint32_t>(share * static_cast<double>(launch.grid[d])));
  }
  return at;
}

}  // namespace

std::string LaunchRunner::Prepare() {
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
    std::memcpy(parameters_.data() + parameter.offset, &bits, static_cast<size_t>(parameter.bytes));
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

LaunchCheck LaunchRunner::Check(const Program& program, std::span<const BufferSpec> buffers) {
  LaunchCheck check;
  check.kernel = launch_.kernel;
  if (max_warps_ < warps_) {
    check.not_checked = "a block with more registers than the limit";
    return check;
  }
  const int64_t shared = kernel_.dynamic_shared_at + launch_.dynamic_shared_bytes;
  Checker checker(program, kernel_, launch_, buffers, memory_, shared);
  block_.checker = &checker;
  for (const Instruction& i : kernel_.instructions) {
    if (i.approximates != nullptr) check.approximate = i.approximates;
  }
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
      const auto sampled = static_cast<uint64_t>(std::min(kSampledSteps, steps_left_) / each);
      const uint64_t some = std::max<uint64_t>(1, std::min<uint64_t>(sampled, 6));
      for (uint64_t k = 1; going && k <= some; ++k) {
        going = run(k == 1 ? blocks - 1 : blocks - 1 - (k - 1) * (blocks - 1) / some);
      }
    }
  }
  block_.checker = nullptr;
  check.complete = going && static_cast<uint64_t>(check.blocks) == blocks;
  check.steps = limits_.launch_steps - steps_left_;
  check.findings = checker.Findings();
  if (block_.approximated != nullptr) check.approximate = block_.approximated;
  if (memory_.full()) check.approximate = "more written memory than the limit";
  if (check.not_checked.empty()) check.not_checked = checker.not_checked();
  return check;
}

LaunchCounts LaunchRunner::Run() {
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

void LaunchRunner::Sample(LaunchCounts& counts) {
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

bool LaunchRunner::InOrder(const GlobalMemory& before, int64_t block_steps, LaunchCounts& counts) {
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
  if (static_cast<double>(results.size()) == launch_.blocks()) {
    for (const BlockResult& result : results) counts.counters.Add(result.counters, 1);
  } else {
    counts.counters.Add(usual.counters, launch_.blocks());
  }
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

void LaunchRunner::Begin(Warp& w, const std::array<uint32_t, 3>& at) {
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

uint64_t LaunchRunner::ValueOf(const SlotValue& value, const std::array<uint32_t, 3>& at, int warp,
                               int lane, int64_t thread) const {
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
    case Source::kClock:  // see BindMove
    case Source::kZero: return 0;
  }
  return 0;
}

LaunchRunner::BlockResult LaunchRunner::RunBlock(const std::array<uint32_t, 3>& at, int64_t budget,
                                                 int wanted) {
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

uint32_t LaunchRunner::MaskOf(int index) const {
  const int64_t lanes = launch_.threads() - int64_t{index} * kWarpLanes;
  return lanes >= kWarpLanes ? ~uint32_t{0} : (uint32_t{1} << lanes) - 1;
}

Outcome LaunchRunner::RunWarps(const std::array<uint32_t, 3>& at, int64_t& left) {
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

void LaunchRunner::Reduce(Warp& w) const {
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

}  // namespace kernelcast::worker::virtual_gpu
