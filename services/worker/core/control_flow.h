#ifndef KERNELCAST_SERVICES_WORKER_CORE_CONTROL_FLOW_H_
#define KERNELCAST_SERVICES_WORKER_CORE_CONTROL_FLOW_H_

#include <cstddef>
#include <span>
#include <vector>

namespace kernelcast::worker {

// What control does after an instruction of a function.
struct FlowStep {
  std::vector<size_t> targets;  // instructions of the same function that it may jump to
  bool falls_through = true;    // it may go on with the next
  bool branches = false;        // a branch, also where its target is not of this function

  bool ends_block() const { return branches || !falls_through; }
};

// A natural loop: the instructions from which its head is reached again, in their order.
struct Loop {
  size_t head = 0;
  std::vector<size_t> instructions;
  bool inner = true;  // contains no other loop
};

struct LoopNest {
  std::vector<Loop> loops;
  std::vector<int> depth;   // loops around each instruction
  std::vector<bool> inner;  // whether one of those is an inner loop
  int max_depth = 0;
};

LoopNest FindLoops(std::span<const FlowStep> function);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_CONTROL_FLOW_H_
