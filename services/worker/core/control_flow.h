#ifndef KERNELCAST_SERVICES_WORKER_CORE_CONTROL_FLOW_H_
#define KERNELCAST_SERVICES_WORKER_CORE_CONTROL_FLOW_H_

#include <cstddef>
#include <span>
#include <vector>

namespace kernelcast::worker {

// Where control can go after one instruction of a function.
struct FlowStep {
  std::vector<size_t> targets;  // jump targets within the function
  bool falls_through = true;    // may continue with the next instruction
  bool branches = false;        // a branch, even if its target is outside the function

  bool ends_block() const { return branches || !falls_through; }
};

// A natural loop: all instructions from which its head is reached again, in program order.
struct Loop {
  size_t head = 0;
  std::vector<size_t> instructions;
  bool inner = true;  // contains no other loop
};

struct LoopNest {
  std::vector<Loop> loops;
  std::vector<int> depth;   // number of loops around each instruction
  std::vector<bool> inner;  // whether any of those loops is an inner loop
  int max_depth = 0;
};

LoopNest FindLoops(std::span<const FlowStep> function);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_CONTROL_FLOW_H_
