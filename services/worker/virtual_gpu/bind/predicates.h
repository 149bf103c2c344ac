#ifndef KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_PREDICATES_H_
#define KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_PREDICATES_H_

#include "services/worker/virtual_gpu/bind/binding.h"

namespace kernelcast::worker::virtual_gpu {

// Forms of and, or, xor, not and mov for predicates.
bool BindPredicateLogic(const Opcode& opcode, const Operands& operands, Decoder& decoder);
bool BindPredicateMove(const Operands& operands, Decoder& decoder);

}  // namespace kernelcast::worker::virtual_gpu

#endif  // KERNELCAST_SERVICES_WORKER_VIRTUAL_GPU_BIND_PREDICATES_H_
