// The entry point of a host-launched candidate: all that a kernel source sees of Kernelcast.
//
// A candidate, a reference and an oracle each define kernelcast_run once. Contract:
//  - Tensors are dense and row-major: strides == nullptr, byte_offset == 0, data aligned to
//    64 bytes. Sizes come from shape[]; every shape that the problem allows must work.
//  - Inputs are read-only. Every element of every output must be written; an output holds
//    arbitrary bytes on entry.
//  - `stream` is the cudaStream_t to launch on, and null on the cpu target. On the cuda target
//    data is device memory, all work goes to that stream, and the call need not wait for it.
//  - The call is synchronous on the cpu target, and single-threaded on both. It keeps no state
//    between calls, opens no files and starts no processes. Memory it allocates it also frees.
//  - Returns 0 on success; any other value is reported as a failed call.
#ifndef KERNELCAST_CANDIDATE_H_
#define KERNELCAST_CANDIDATE_H_

#include <dlpack/dlpack.h>
#include <stdint.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t num_inputs,
                                  const DLTensor* outputs, int32_t num_outputs, void* stream);

// The tensor's elements as `T`, which must be the C++ type of the tensor's dtype.
template <class T>
inline T* kc_data(const DLTensor& t) {
  return static_cast<T*>(t.data);
}

#endif  // KERNELCAST_CANDIDATE_H_
