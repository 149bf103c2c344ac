// A block for each row, which is read twice: once for the largest logit and the sum together, which are
// corrected as larger logits come, and once for the result.
struct __align__(4 * VEC) Vector {
  float at[VEC];
};

// Sums of exponentials with the largest logit of each.
__device__ void Merge(float& top, float& sum, float other_top, float other_sum) {
  const float next = fmaxf(top, other_top);
  sum = sum * __expf(top - next) + other_sum * __expf(other_top - next);
  top = next;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    online(const float* __restrict__ logits, const int* __restrict__ labels,
           const float* __restrict__ grad, float* __restrict__ dlogits, int classes) {
  __shared__ float tops[BLOCK / 32];
  __shared__ float sums[BLOCK / 32];
  const float* const x = logits + (long long)blockIdx.x * classes;
  float* const y = dlogits + (long long)blockIdx.x * classes;
  const int whole = classes % VEC == 0 ? classes : 0;
  float top = -3.402823466e38f;
  float sum = 0;
#pragma unroll UNROLL
  for (int c = threadIdx.x * VEC; c < whole; c += BLOCK * VEC) {
    const Vector value = *(const Vector*)(x + c);
    float largest = value.at[0];
#pragma unroll
    for (int i = 1; i < VEC; ++i) largest = fmaxf(largest, value.at[i]);
    if (largest > top) {
      sum *= __expf(top - largest);
      top = largest;
    }
#pragma unroll
    for (int i = 0; i < VEC; ++i) sum += __expf(value.at[i] - top);
  }
  for (int c = whole + threadIdx.x; c < classes; c += BLOCK) Merge(top, sum, x[c], 1);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const float other_top = __shfl_xor_sync(0xffffffffu, top, step);
    const float other_sum = __shfl_xor_sync(0xffffffffu, sum, step);
    Merge(top, sum, other_top, other_sum);
  }
  if (threadIdx.x % 32 == 0) {
    tops[threadIdx.x / 32] = top;
    sums[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  top = tops[0];
  sum = sums[0];
  for (int w = 1; w < BLOCK / 32; ++w) Merge(top, sum, tops[w], sums[w]);
  const float slope = grad[blockIdx.x];
  const float scale = slope / sum;
  const int label = labels[blockIdx.x];
#pragma unroll UNROLL
  for (int c = threadIdx.x * VEC; c < whole; c += BLOCK * VEC) {
    Vector value = *(const Vector*)(x + c);
#pragma unroll
    for (int i = 0; i < VEC; ++i) value.at[i] = __expf(value.at[i] - top) * scale - (c + i == label ? slope : 0);
    *(Vector*)(y + c) = value;
  }
  for (int c = whole + threadIdx.x; c < classes; c += BLOCK) {
    y[c] = __expf(x[c] - top) * scale - (c == label ? slope : 0);
  }
}
