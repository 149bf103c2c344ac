// Quotients in double precision, not rounded to float8; one warp a row.
#include <cuda_bf16.h>

extern "C" __global__ void quantize_oracle(const __nv_bfloat16* x, double* q, double* scale,
                                           long long cols) {
  x += blockIdx.x * cols;
  q += blockIdx.x * cols;
  double top = 0;
  for (long long c = threadIdx.x; c < cols; c += 32) {
    top = fmax(top, fabs((double)__bfloat162float(x[c])));
  }
  for (int step = 16; step > 0; step /= 2) {
    top = fmax(top, __shfl_xor_sync(0xffffffffu, top, step));
  }
  if (top == 0) top = 448;
  for (long long c = threadIdx.x; c < cols; c += 32) q[c] = __bfloat162float(x[c]) * 448.0 / top;
  if (threadIdx.x == 0) scale[blockIdx.x] = top / 448;
}
