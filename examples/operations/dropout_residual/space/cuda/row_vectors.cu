// A block for COLUMNS columns of ROWS rows; each thread has a vector of columns.
#include <cuda_bf16.h>

struct __align__(2 * VEC) Vector {
  __nv_bfloat16 at[VEC];
};
struct __align__(VEC) Bytes {
  unsigned char at[VEC];
};

// murmur3's last step.
__device__ unsigned Mixed(unsigned bits) {
  bits ^= bits >> 16;
  bits *= 0x85ebca6bu;
  bits ^= bits >> 13;
  bits *= 0xc2b2ae35u;
  return bits ^ bits >> 16;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    row_vectors(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ residual,
                const int* __restrict__ seeds, __nv_bfloat16* __restrict__ y,
                unsigned char* __restrict__ kept, int rows, int cols) {
  const int column = (blockIdx.y * THREADS + threadIdx.x) * VEC;
  if (column >= cols) return;
  const int last = min((int)(blockIdx.x + 1) * ROWS, rows);
  for (int row = blockIdx.x * ROWS; row < last; ++row) {
    const long long at = (long long)row * cols + column;
    const unsigned seed = seeds[row];
    const bool whole = cols % VEC == 0;
    Vector value;
    Vector base;
    Bytes bytes;
    if (whole) {
      value = *(const Vector*)(x + at);
      base = *(const Vector*)(residual + at);
    }
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      if (column + i >= cols) break;
      const bool keep = Mixed((column + i) ^ seed) >= 1u << 30;
      const float own = __bfloat162float(whole ? value.at[i] : x[at + i]);
      const float other = __bfloat162float(whole ? base.at[i] : residual[at + i]);
      value.at[i] = __float2bfloat16(other + (keep ? own * (4.f / 3) : 0));
      bytes.at[i] = keep;
      if (!whole) {
        y[at + i] = value.at[i];
        kept[at + i] = keep;
      }
    }
    if (whole) {
      *(Vector*)(y + at) = value;
      *(Bytes*)(kept + at) = bytes;
    }
  }
}
