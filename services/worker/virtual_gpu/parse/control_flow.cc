#include "services/worker/virtual_gpu/parse/control_flow.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace kernelcast::worker::virtual_gpu {
namespace {

// ptxas 13.0 replaces branches over at most this many instructions, and over this many that are not
// loads (seen in its code for sm_90a).
constexpr int64_t kMostPredicated = 20;
constexpr int kMostPredicatedOthers = 8;

bool Writes(const Kernel& kernel, const Instruction& at, uint16_t slot) {
  for (int k = 0; k < at.writes; ++k) {
    if (kernel.operands[at.operands + static_cast<size_t>(k)] == slot) return true;
  }
  return false;
}

// Finds the comparisons that determine a predicate, going back from `from` to `head`.
void FindDrivers(Kernel& kernel, int32_t head, int32_t from, uint16_t predicate, int depth,
                 LoopInfo& loop) {
  if (depth > 4) return;
  for (int32_t i = from; i >= head && from - i < 4096; --i) {
    Instruction& at = kernel.instructions[static_cast<size_t>(i)];
    if (!Writes(kernel, at, predicate)) continue;
    const uint16_t* operands = kernel.operands.data() + at.operands;
    if (at.driver == kComparesIntegers || at.driver >= 0) {
      if (at.driver < 0) at.driver = kernel.drivers++;
      loop.drivers.push_back(at.driver);
    }
    for (int k = at.writes; k < at.writes + at.reads; ++k) {
      if (kernel.slots[operands[k]].kind == SlotClass::kPredicate) {
        FindDrivers(kernel, head, i - 1, operands[k], depth + 1, loop);
      }
    }
    return;
  }
}

}  // namespace

void FindMeetings(Kernel& kernel) {
  std::vector<Instruction>& code = kernel.instructions;
  const auto count = static_cast<int32_t>(code.size());
  std::vector<int32_t> block_of(code.size(), -1);
  std::vector<int32_t> starts;
  std::vector<bool> leads(code.size() + 1, false);
  leads[0] = true;
  for (int32_t i = 0; i < count; ++i) {
    const Instruction& at = code[static_cast<size_t>(i)];
    if (at.flow == Flow::kBranch) {
      leads[static_cast<size_t>(at.target)] = true;
      leads[static_cast<size_t>(i) + 1] = true;
    } else if (at.flow == Flow::kExit) {
      leads[static_cast<size_t>(i) + 1] = true;
    }
  }
  for (int32_t i = 0; i < count; ++i) {
    if (leads[static_cast<size_t>(i)]) starts.push_back(i);
    block_of[static_cast<size_t>(i)] = static_cast<int32_t>(starts.size()) - 1;
  }
  const auto blocks = static_cast<int32_t>(starts.size());
  const int32_t end = blocks;  // a virtual block that all exits lead to
  std::vector<std::array<int32_t, 2>> next(static_cast<size_t>(blocks), {-1, -1});
  std::vector<std::vector<int32_t>> previous(static_cast<size_t>(blocks) + 1);
  for (int32_t b = 0; b < blocks; ++b) {
    const int32_t last = b + 1 < blocks ? starts[static_cast<size_t>(b) + 1] - 1 : count - 1;
    const Instruction& at = code[static_cast<size_t>(last)];
    auto& successors = next[static_cast<size_t>(b)];
    const int32_t through = last + 1 < count ? block_of[static_cast<size_t>(last) + 1] : end;
    if (at.flow == Flow::kBranch) {
      successors[0] = block_of[static_cast<size_t>(at.target)];
      if (at.guard >= 0) successors[1] = through;
    } else if (at.flow == Flow::kExit) {
      successors[0] = end;
      if (at.guard >= 0) successors[1] = through;
    } else {
      successors[0] = through;
    }
    for (const int32_t s : successors) {
      if (s >= 0) previous[static_cast<size_t>(s)].push_back(b);
    }
  }
  // Reverse post-order of the reversed graph, from the end.
  std::vector<int32_t> order;
  std::vector<int32_t> position(static_cast<size_t>(blocks) + 1, -1);
  {
    std::vector<std::pair<int32_t, size_t>> stack = {{end, 0}};
    std::vector<bool> seen(static_cast<size_t>(blocks) + 1, false);
    seen[static_cast<size_t>(end)] = true;
    while (!stack.empty()) {
      auto& [node, index] = stack.back();
      const auto& from = previous[static_cast<size_t>(node)];
      if (index < from.size()) {
        const int32_t to = from[index++];
        if (!seen[static_cast<size_t>(to)]) {
          seen[static_cast<size_t>(to)] = true;
          stack.emplace_back(to, 0);
        }
      } else {
        order.push_back(node);
        stack.pop_back();
      }
    }
    std::reverse(order.begin(), order.end());
    for (size_t i = 0; i < order.size(); ++i) {
      position[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
    }
  }
  std::vector<int32_t> meeting(static_cast<size_t>(blocks) + 1, -1);
  meeting[static_cast<size_t>(end)] = end;
  bool changed = true;
  for (int round = 0; changed && round < 64; ++round) {
    changed = false;
    for (const int32_t node : order) {
      if (node == end) continue;
      int32_t found = -1;
      for (const int32_t s : next[static_cast<size_t>(node)]) {
        if (s < 0 || meeting[static_cast<size_t>(s)] < 0) continue;
        if (found < 0) {
          found = s;
          continue;
        }
        int32_t a = found;
        int32_t b = s;
        while (a != b) {
          while (position[static_cast<size_t>(a)] > position[static_cast<size_t>(b)]) {
            a = meeting[static_cast<size_t>(a)];
          }
          while (position[static_cast<size_t>(b)] > position[static_cast<size_t>(a)]) {
            b = meeting[static_cast<size_t>(b)];
          }
        }
        found = a;
      }
      if (found >= 0 && meeting[static_cast<size_t>(node)] != found) {
        meeting[static_cast<size_t>(node)] = found;
        changed = true;
      }
    }
  }
  for (int32_t i = 0; i < count; ++i) {
    Instruction& at = code[static_cast<size_t>(i)];
    if (at.flow != Flow::kBranch) continue;
    const int32_t block = meeting[static_cast<size_t>(block_of[static_cast<size_t>(i)])];
    at.reconverge = block < 0 || block == end ? -1 : starts[static_cast<size_t>(block)];
  }
}

void FindPredicatedBranches(Kernel& kernel) {
  std::vector<Instruction>& code = kernel.instructions;
  for (size_t i = 0; i < code.size(); ++i) {
    Instruction& branch = code[i];
    const auto first = static_cast<int64_t>(i) + 1;
    const int64_t count = branch.target - first;
    if (branch.flow != Flow::kBranch || branch.guard < 0 || count < 1 || count > kMostPredicated) {
      continue;
    }
    int others = 0;
    bool straight = true;
    for (int64_t k = first; k < branch.target; ++k) {
      const Instruction& at = code[static_cast<size_t>(k)];
      straight = straight && at.flow == Flow::kNext && at.guard < 0 && !at.is_atomic;
      others += at.pipe == Pipe::kMemory && at.writes > 0 ? 0 : 1;
    }
    branch.predicated = straight && others <= kMostPredicatedOthers;
  }
}

void FindLoops(Kernel& kernel) {
  std::vector<Instruction>& code = kernel.instructions;
  const auto count = static_cast<int32_t>(code.size());
  int64_t work = 0;
  // Index of the last loop that wrote each register.
  std::vector<int32_t> written(kernel.slots.size(), -1);
  std::vector<int32_t> noted(kernel.slots.size(), -1);
  for (int32_t i = 0; i < count; ++i) {
    if (code[static_cast<size_t>(i)].flow != Flow::kBranch ||
        code[static_cast<size_t>(i)].target > i || kernel.loops.size() >= 1000) {
      continue;
    }
    const int32_t head = code[static_cast<size_t>(i)].target;
    work += i - head;
    if (work > 2'000'000) break;
    const auto index = static_cast<int32_t>(kernel.loops.size());
    LoopInfo loop;
    loop.head = head;
    loop.end = i;
    std::vector<uint16_t> exposed;
    for (int32_t k = head; k <= i; ++k) {
      const Instruction& at = code[static_cast<size_t>(k)];
      const uint16_t* operands = kernel.operands.data() + at.operands;
      for (int o = at.writes; o < at.writes + at.reads; ++o) {
        const uint16_t slot = operands[o];
        if (written[slot] != index && noted[slot] != index) {
          noted[slot] = index;
          exposed.push_back(slot);
        }
      }
      for (int o = 0; o < at.writes; ++o) written[operands[o]] = index;
      // Include branches that do not leave the loop: they change what an iteration does.
      if (at.flow == Flow::kBranch && at.guard >= 0 && loop.drivers.size() < 48) {
        FindDrivers(kernel, head, k, static_cast<uint16_t>(at.guard), 0, loop);
      }
    }
    for (const uint16_t slot : exposed) {
      if (written[slot] == index && !kernel.slots[slot].is_float &&
          kernel.slots[slot].kind != SlotClass::kPredicate && loop.carried.size() < 64) {
        loop.carried.push_back(slot);
      }
    }
    std::sort(loop.drivers.begin(), loop.drivers.end());
    loop.drivers.erase(std::unique(loop.drivers.begin(), loop.drivers.end()), loop.drivers.end());
    code[static_cast<size_t>(i)].loop = index;
    kernel.loops.push_back(std::move(loop));
  }
  for (Instruction& at : code) {
    if (at.driver == kComparesIntegers) at.driver = -1;
  }
}

// Registers whose value is the same in all lanes depend on nothing that differs between lanes.
void DescribeAtomics(Kernel& kernel) {
  std::vector<Instruction>& code = kernel.instructions;
  if (std::none_of(code.begin(), code.end(), [](const Instruction& i) { return i.is_atomic; })) {
    return;
  }
  std::vector<bool> varies(kernel.slots.size(), false);
  for (const SlotValue& value : kernel.values) {
    using Source = SlotValue::Source;
    varies[value.slot] =
        value.source == Source::kThreadX || value.source == Source::kThreadY ||
        value.source == Source::kThreadZ || value.source == Source::kLane ||
        (value.source >= Source::kMaskEqual && value.source <= Source::kMaskGreaterEqual);
  }
  bool changed = true;
  for (int round = 0; changed && round < 8; ++round) {
    changed = false;
    for (const Instruction& i : code) {
      const uint16_t* operands = kernel.operands.data() + i.operands;
      bool is = i.is_atomic || (i.guard >= 0 && varies[static_cast<size_t>(i.guard)]);
      for (int k = i.writes; k < i.writes + i.reads; ++k) is = is || varies[operands[k]];
      if (!is) continue;
      for (int k = 0; k < i.writes; ++k) {
        changed = changed || !varies[operands[k]];
        varies[operands[k]] = true;
      }
    }
  }
  std::vector<bool> read(kernel.slots.size(), false);
  for (const Instruction& i : code) {
    for (int k = i.writes; k < i.writes + i.reads; ++k) {
      read[kernel.operands[i.operands + static_cast<size_t>(k)]] = true;
    }
  }
  for (Instruction& i : code) {
    if (!i.is_atomic) continue;
    i.result_unused = i.writes == 0 || !read[kernel.operands[i.operands]];
    i.uniform_address =
        !changed && !varies[kernel.operands[i.operands + static_cast<size_t>(i.writes)]];
  }
}

}  // namespace kernelcast::worker::virtual_gpu
