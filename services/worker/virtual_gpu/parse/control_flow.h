#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PARSE_CONTROL_FLOW_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PARSE_CONTROL_FLOW_H_

#include "services/worker/virtual_gpu/program.h"

// Derives the control flow from the instructions of a kernel. Targets of branches must be set.

namespace kernelcast::worker::virtual_gpu {

// Finds where the two paths of each branch reconverge: immediate post-dominators of basic blocks.
void FindMeetings(Kernel& kernel);

// Finds the branches over a few instructions, which ptxas replaces by predicates on these
// instructions (Instruction::predicated).
void FindPredicatedBranches(Kernel& kernel);

// Finds the loops, the registers that they carry and the comparisons that control them.
void FindLoops(Kernel& kernel);

// Finds for each atomic whether its result is used and whether its address is provably the same for
// all lanes.
void DescribeAtomics(Kernel& kernel);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_PARSE_CONTROL_FLOW_H_
