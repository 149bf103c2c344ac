#ifndef KERNELCAST_SERVICES_WORKER_CORE_NARROW_FLOAT_H_
#define KERNELCAST_SERVICES_WORKER_CORE_NARROW_FLOAT_H_

#include <cstdint>

#include "common/domain/problem.h"

namespace kernelcast::worker {

// Whether the type has fewer than 32 bits: float16, bfloat16 and both float8 types.
bool IsNarrowFloat(DataType dtype);

// Returns the bits of the nearest value of a narrow type, ties to even. Values beyond the largest
// become infinity, or the largest value for float8_e4m3, which has no infinity.
uint32_t EncodeNarrow(DataType dtype, double value);

double DecodeNarrow(DataType dtype, uint32_t bits);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_NARROW_FLOAT_H_
