#include "services/worker/core/control_flow.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace kernelcast::worker {
namespace {

// Basic blocks of a function and their dominators.
class ControlFlow {
 public:
  explicit ControlFlow(std::span<const FlowStep> function) : end_(function.size()) {
    std::set<size_t> leaders = {0};
    for (size_t i = 0; i < end_; ++i) {
      if (i + 1 < end_ && function[i].ends_block()) {
        leaders.insert(i + 1);
      }
      for (const size_t target : function[i].targets) {
        leaders.insert(target);
      }
    }
    starts_.assign(leaders.begin(), leaders.end());
    predecessors_.resize(starts_.size());
    successors_.resize(starts_.size());
    for (size_t block = 0; block < starts_.size(); ++block) {
      const FlowStep& last = function[BlockEnd(block) - 1];
      for (const size_t target : last.targets) {
        Connect(block, BlockOf(target));
      }
      if (block + 1 < starts_.size() && last.falls_through) {
        Connect(block, block + 1);
      }
    }
    FindDominators();
  }

  std::vector<Loop> Loops() const {
    std::map<size_t, std::set<size_t>> blocks_by_head;
    for (size_t block = 0; block < starts_.size(); ++block) {
      for (const size_t head : successors_[block]) {
        if (Dominates(head, block)) {
          Collect(head, block, blocks_by_head[head]);
        }
      }
    }
    std::vector<Loop> loops;
    for (const auto& [head, blocks] : blocks_by_head) {
      Loop loop;
      loop.head = starts_[head];
      for (const size_t block : blocks) {
        for (size_t i = starts_[block]; i < BlockEnd(block); ++i) {
          loop.instructions.push_back(i);
        }
      }
      loops.push_back(std::move(loop));
    }
    return loops;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  size_t BlockEnd(size_t block) const {
    return block + 1 < starts_.size() ? starts_[block + 1] : end_;
  }
  size_t BlockOf(size_t instruction) const {
    return static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), instruction) -
                               starts_.begin()) -
           1;
  }
  void Connect(size_t from, size_t to) {
    successors_[from].push_back(to);
    predecessors_[to].push_back(from);
  }

  // Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm".
  void FindDominators() {
    std::vector<size_t> order;  // post-order
    std::vector<size_t> next(starts_.size(), 0);
    std::vector<bool> seen(starts_.size(), false);
    std::vector<size_t> stack = {0};
    seen[0] = true;
    while (!stack.empty()) {
      const size_t block = stack.back();
      if (next[block] < successors_[block].size()) {
        const size_t successor = successors_[block][next[block]++];
        if (!seen[successor]) {
          seen[successor] = true;
          stack.push_back(successor);
        }
      } else {
        order.push_back(block);
        stack.pop_back();
      }
    }
    std::vector<size_t> rank(starts_.size(), 0);
    for (size_t i = 0; i < order.size(); ++i) {
      rank[order[i]] = i;
    }
    dominators_.assign(starts_.size(), kNone);
    dominators_[0] = 0;
    for (bool changed = true; changed;) {
      changed = false;
      for (auto block = order.rbegin(); block != order.rend(); ++block) {
        if (*block == 0) {
          continue;
        }
        size_t dominator = kNone;
        for (size_t other : predecessors_[*block]) {
          if (dominators_[other] == kNone) {
            continue;
          }
          if (dominator == kNone) {
            dominator = other;
            continue;
          }
          while (other != dominator) {
            while (rank[other] < rank[dominator]) {
              other = dominators_[other];
            }
            while (rank[dominator] < rank[other]) {
              dominator = dominators_[dominator];
            }
          }
        }
        changed |= std::exchange(dominators_[*block], dominator) != dominator;
      }
    }
  }

  bool Dominates(size_t head, size_t block) const {
    if (dominators_[block] == kNone) {
      return false;  // not reachable from the start of the function
    }
    while (block != head && block != 0) {
      block = dominators_[block];
    }
    return block == head;
  }

  // The blocks that reach `tail` without passing through `head`.
  void Collect(size_t head, size_t tail, std::set<size_t>& blocks) const {
    blocks.insert(head);
    std::vector<size_t> open;
    if (blocks.insert(tail).second) {
      open.push_back(tail);
    }
    while (!open.empty()) {
      const size_t block = open.back();
      open.pop_back();
      for (const size_t predecessor : predecessors_[block]) {
        if (blocks.insert(predecessor).second) {
          open.push_back(predecessor);
        }
      }
    }
  }

  const size_t end_;
  std::vector<size_t> starts_;
  std::vector<std::vector<size_t>> successors_;
  std::vector<std::vector<size_t>> predecessors_;
  std::vector<size_t> dominators_;
};

}  // namespace

LoopNest FindLoops(std::span<const FlowStep> function) {
  LoopNest nest;
  nest.depth.assign(function.size(), 0);
  nest.inner.assign(function.size(), false);
  if (function.empty()) {
    return nest;
  }
  nest.loops = ControlFlow(function).Loops();
  std::set<size_t> heads;
  for (const Loop& loop : nest.loops) {
    heads.insert(loop.head);
  }
  for (Loop& loop : nest.loops) {
    for (const size_t i : loop.instructions) {
      nest.max_depth = std::max(nest.max_depth, ++nest.depth[i]);
      // Natural loops with different heads are disjoint or nested.
      loop.inner &= i == loop.head || heads.count(i) == 0;
    }
  }
  for (const Loop& loop : nest.loops) {
    for (const size_t i : loop.instructions) {
      nest.inner[i] = nest.inner[i] || loop.inner;
    }
  }
  return nest;
}

}  // namespace kernelcast::worker
