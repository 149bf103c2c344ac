#ifndef KERNELCAST_SERVICES_WORKER_CUDA_PTX_ACCESS_H_
#define KERNELCAST_SERVICES_WORKER_CUDA_PTX_ACCESS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "services/worker/cuda/ptx/decoder.h"

namespace kernelcast::worker::ptx {

// Bind for what touches memory.
bool BindAccess(const Opcode& opcode, const std::vector<Operand>& operands, Decoder& decoder);

// How often shared memory has to be read or written for one request in which lane i touches `bytes`
// bytes (1 to 16) from addresses[i] on: 32 banks of 4 bytes, and lanes that want the same word are
// served at once. Requests of 8 bytes are served half a warp at a time, those of 16 a quarter.
int SharedWavefronts(std::span<const uint64_t> addresses, int bytes);

}  // namespace kernelcast::worker::ptx

#endif  // KERNELCAST_SERVICES_WORKER_CUDA_PTX_ACCESS_H_
