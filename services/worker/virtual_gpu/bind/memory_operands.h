#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_MEMORY_OPERANDS_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_MEMORY_OPERANDS_H_

#include <string_view>
#include <vector>

#include "services/worker/virtual_gpu/bind/binding.h"

// Parts of the opcodes and operands of instructions that access memory.

namespace kernelcast::worker::virtual_gpu {

struct AccessType {
  int bytes = 0;
  bool is_signed = false;
};
// Size and sign of a type of loads and stores; 0 bytes: not known.
AccessType AccessTypeOf(std::string_view name);

// The space that an opcode names; kGeneric without one.
Space SpaceOf(const Opcode& opcode);
inline bool MayBeShared(Space space) { return space == Space::kShared || space == Space::kGeneric; }

// Number of elements that each lane accesses.
int VectorOf(const Opcode& opcode);

// Returns the operand itself, or the elements of a vector.
std::vector<Operand> Elements(const Operand& operand);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_MEMORY_OPERANDS_H_
