#ifndef KERNELCAST_SERVICES_WORKER_CUDA_PTX_ACCESS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_PTX_ACCESS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "services/worker/cuda/ptx/decoder.h"

namespace kernelcast::worker::ptx {

// Binds instructions that access memory. See Bind.
bool BindAccess(const Opcode& opcode, const std::vector<Operand>& operands, Decoder& decoder);

// Returns the number of shared memory wavefronts for one request in which lane i accesses `bytes`
// bytes (1 to 16) at addresses[i]. There are 32 banks of 4 bytes, and lanes that access the same
// word are served together. Requests of 8 bytes are served half a warp at a time, those of 16 a
// quarter.
int SharedWavefronts(std::span<const uint64_t> addresses, int bytes);

}  // namespace kernelcast::worker::ptx

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_PTX_ACCESS_H_
