#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_INSTRUCTIONS_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_INSTRUCTIONS_H_

#include <span>
#include <string_view>

#include "services/worker/virtual_gpu/bind/binding.h"

namespace kernelcast::worker::virtual_gpu {

struct InstructionEntry {
  std::string_view name;  // the first part of the opcode
  Binder bind;
};

// All instructions that are covered, except for those that the parser resolves: bra, brx, call,
// ret, exit and trap.
std::span<const InstructionEntry> Instructions();

// Binds `opcode` to its handler and its cost. Returns false if it is not covered; then the decoder
// has the reason.
bool Bind(const Opcode& opcode, const Operands& operands, Decoder& decoder);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_INSTRUCTIONS_H_
