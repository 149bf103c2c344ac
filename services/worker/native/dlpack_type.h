#ifndef KERNELCAST_SERVICES_WORKER_NATIVE_DLPACK_TYPE_H_
#define KERNELCAST_SERVICES_WORKER_NATIVE_DLPACK_TYPE_H_

#include <dlpack/dlpack.h>

#include <cstdint>

#include "common/domain/problem.h"

namespace kernelcast::worker {

// Returns the DLDataType::code of a data type, for host-code candidates.
inline uint8_t DlpackCode(DataType dtype) {
  // From DLPack 1.1; headers in distributions are older.
  constexpr uint8_t kFloat8E4m3fn = 10;
  constexpr uint8_t kFloat8E5m2 = 12;
  switch (dtype) {
    case DataType::kBfloat16: return kDLBfloat;
    case DataType::kFloat8E4m3: return kFloat8E4m3fn;
    case DataType::kFloat8E5m2: return kFloat8E5m2;
    case DataType::kUint8: return kDLUInt;
    case DataType::kFloat64:
    case DataType::kFloat32:
    case DataType::kFloat16: return kDLFloat;
    case DataType::kInt64:
    case DataType::kInt32:
    case DataType::kInt8: break;
  }
  return kDLInt;
}

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_NATIVE_DLPACK_TYPE_H_
