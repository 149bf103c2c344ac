#ifndef KERNELCAST_SERVICES_WORKER_RUNNER_SERVE_H_
#define KERNELCAST_SERVICES_WORKER_RUNNER_SERVE_H_

#include <dlpack/dlpack.h>

#include <cstdint>

#include "services/worker/runner/control.h"

// The runner's side of control.h, for every kind of program that a runner executes.
namespace kernelcast::worker::runner {

// The memory that the judge has passed, mapped.
struct Blocks {
  ControlBlock* control = nullptr;
  StartBlock* start = nullptr;
  char* inputs = nullptr;  // read-only
  char* outputs = nullptr;
};

// Tensors of a case: inputs, then outputs.
struct Case {
  DLTensor* tensors;
  int32_t inputs;
  int32_t outputs;
};

// Prints the reason and ends the process.
[[noreturn]] void GiveUp(StartBlock* start, Failure failure, const char* why);

// Makes malloc keep freed memory. By default it may return memory to the system, depending on
// earlier allocations. Two processes with the same code then have different page faults in each
// call, and one may take ten times as long as the other.
void KeepFreedMemory();

// Maps the blocks and tensors, and moves the process to its core.
Blocks MapBlocks();

// Builds the tensors of all cases in advance, so that a call only needs its index.
const Case* BuildCases(const Blocks& blocks);

// Calls the program on a case and returns its status.
using CallProgram = int32_t (*)(const Case& c, uint32_t index, const void* context);

// Says that the process is ready, and executes the judge's commands until it is killed.
[[noreturn]] void Serve(ControlBlock* block, const Case* cases, CallProgram call,
                        const void* context);

}  // namespace kernelcast::worker::runner

#endif  // KERNELCAST_SERVICES_WORKER_RUNNER_SERVE_H_
