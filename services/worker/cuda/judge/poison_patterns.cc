#include "services/worker/cuda/judge/poison_patterns.h"

#include <bit>
#include <cmath>

#include "services/worker/core/narrow_float.h"

namespace kernelcast::worker {

uint32_t PoisonPatterns::NextNan() {
  return 0x7ff07ff0u | 0x00010001u | static_cast<uint32_t>(random_.Below(7) << 1) |
         static_cast<uint32_t>(random_.Below(7) << 17);
}

uint32_t PoisonPatterns::NextPlausible(const CudaExpected& expected) {
  const double scale = std::isfinite(expected.rms) && expected.rms > 0 ? expected.rms : 1;
  const double value = scale * (0.25 + random_.Uniform()) * (random_.Next() & 1 ? 1 : -1);
  switch (expected.dtype) {
    case DataType::kFloat32: {
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    }
    // The upper half of a double determines its magnitude.
    case DataType::kFloat64: return static_cast<uint32_t>(std::bit_cast<uint64_t>(value) >> 32);
    case DataType::kFloat16:
    case DataType::kBfloat16: return EncodeNarrow(expected.dtype, value) * 0x00010001u;
    case DataType::kFloat8E4m3:
    case DataType::kFloat8E5m2: return EncodeNarrow(expected.dtype, value) * 0x01010101u;
    default: return static_cast<uint32_t>(random_.Below(100)) + 1;
  }
}

}  // namespace kernelcast::worker
