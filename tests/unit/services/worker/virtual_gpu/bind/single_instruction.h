#ifndef KERNELCAST_TESTS_UNIT_SERVICES_WORKER_VIRTUAL_GPU_BIND_SINGLE_INSTRUCTION_H_
#define KERNELCAST_TESTS_UNIT_SERVICES_WORKER_VIRTUAL_GPU_BIND_SINGLE_INSTRUCTION_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "services/worker/virtual_gpu/execute/counters.h"

// Executes a few statements of PTX and reads back what they leave in a register.

namespace kernelcast::worker::virtual_gpu {

// A kernel around `body`. It has registers %p, %h (16 bits), %r, %rd, %f and %d, 64 aligned bytes
// of shared memory `sh`, and 64 bytes of local memory `lo` per thread. %at is the thread's own
// address in a buffer of zeros, 256 bytes from that of the next.
std::string SingleKernel(std::string_view body);

struct Ran {
  std::string not_covered;
  std::string inexact;            // of a check
  std::vector<uint64_t> results;  // by thread
  Counters counters;
  double cycles = 0;  // of the block
};

// Executes `body` in one block and stores register 0 of the kind that the body names with the
// number 0: "%r0" or "%p0", say. Predicates become 1 or 0. Narrow results are zero-extended.
Ran RunBody(std::string_view body, int threads = 1);

// Executes the kernel `k` of `ptx`, which stores to %at itself.
Ran RunKernel(const std::string& ptx, int threads = 1);

// Executes the kernel `k` of `ptx` as a check, which computes all values.
Ran CheckKernel(const std::string& ptx, int threads = 1);

// Executes `opcode` with one thread for each element of `operands`, and returns the results.
// `registers` are the kinds of the result and of the sources, such as {"rd", "r", "r"} for
// mul.wide.u32.
std::vector<uint64_t> RunOn(const std::string& opcode, const std::vector<std::string>& registers,
                            std::span<const std::array<uint64_t, 3>> operands);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_TESTS_UNIT_SERVICES_WORKER_VIRTUAL_GPU_BIND_SINGLE_INSTRUCTION_H_
