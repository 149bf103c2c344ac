// One block a head and one pass: groups of LANES lanes take a key each, KEYS of them at a time, with
// four elements a load, and have a running maximum, sum and result of their own. Heads wider than a
// group's four vectors a lane are taken in pieces; where heads are not aligned, elements are read one
// by one.
constexpr float kLowest = -3.402823466e38f;
constexpr int kGroups = 32 / LANES;
// Vectors of the result that a lane carries.
constexpr int kWide = 16 / LANES > 1 ? 16 / LANES : 1;

__device__ float4 Load(const float* row, int d, int dim, bool aligned) {
  if (aligned) return d < dim ? *(const float4*)(row + d) : make_float4(0, 0, 0, 0);
  return make_float4(d < dim ? row[d] : 0, d + 1 < dim ? row[d + 1] : 0,
                     d + 2 < dim ? row[d + 2] : 0, d + 3 < dim ? row[d + 3] : 0);
}

__device__ float Dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

__device__ void AddTo(float4& sum, float weight, float4 value) {
  sum.x += weight * value.x;
  sum.y += weight * value.y;
  sum.z += weight * value.z;
  sum.w += weight * value.w;
}

__device__ float4 Scaled(float4 value, float factor) {
  return make_float4(value.x * factor, value.y * factor, value.z * factor, value.w * factor);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    vector_keys(const float* __restrict__ q, const float* __restrict__ k,
                const float* __restrict__ v, float* __restrict__ out, long long length_wide,
                long long dim_wide) {
  __shared__ float tops[WARPS * kGroups];
  __shared__ float sums[WARPS * kGroups];
  __shared__ float4 totals[WARPS * kGroups][kWide][LANES];
  const int length = (int)length_wide;
  const int dim = (int)dim_wide;
  const int lane = threadIdx.x % LANES;
  const int group = threadIdx.y * kGroups + threadIdx.x / LANES;
  const bool aligned = dim % 4 == 0;
  const float scale = 1 / sqrtf((float)dim);
  q += blockIdx.x * dim_wide;
  k += blockIdx.x * length_wide * dim;
  v += blockIdx.x * length_wide * dim;
  out += blockIdx.x * dim_wide;
  for (int left = 0; left < dim; left += 4 * LANES * kWide) {
    float top = kLowest;
    float sum = 0;
    float4 total[kWide];
#pragma unroll
    for (int j = 0; j < kWide; ++j) total[j] = make_float4(0, 0, 0, 0);
    // All groups of a warp go the same number of steps, for they shuffle together.
    for (int first = 0; first < length; first += WARPS * kGroups * KEYS) {
      const int t = first + group * KEYS;
      float score[KEYS] = {};
      for (int d = lane * 4; d < dim; d += LANES * 4) {
        const float4 query = Load(q, d, dim, aligned);
#pragma unroll
        for (int i = 0; i < KEYS; ++i) {
          if (t + i < length) score[i] += Dot(query, Load(k + (t + i) * dim, d, dim, aligned));
        }
      }
      float next = top;
#pragma unroll
      for (int i = 0; i < KEYS; ++i) {
        for (int step = LANES / 2; step > 0; step /= 2) {
          score[i] += __shfl_xor_sync(0xffffffffu, score[i], step);
        }
        score[i] = t + i < length ? score[i] * scale : kLowest;
        next = fmaxf(next, score[i]);
      }
      const float factor = __expf(top - next);
      top = next;
      sum *= factor;
#pragma unroll
      for (int j = 0; j < kWide; ++j) total[j] = Scaled(total[j], factor);
#pragma unroll
      for (int i = 0; i < KEYS; ++i) {
        if (t + i >= length) continue;
        const float weight = __expf(score[i] - top);
        sum += weight;
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
          const int d = left + (j * LANES + lane) * 4;
          AddTo(total[j], weight, Load(v + (t + i) * dim, d, dim, aligned));
        }
      }
    }
    __syncthreads();
    if (lane == 0) {
      tops[group] = top;
      sums[group] = sum;
    }
#pragma unroll
    for (int j = 0; j < kWide; ++j) totals[group][j][lane] = total[j];
    __syncthreads();
    if (group > 0) continue;
    float highest = kLowest;
    for (int g = 0; g < WARPS * kGroups; ++g) highest = fmaxf(highest, tops[g]);
    float whole = 0;
    float4 result[kWide];
#pragma unroll
    for (int j = 0; j < kWide; ++j) result[j] = make_float4(0, 0, 0, 0);
    for (int g = 0; g < WARPS * kGroups; ++g) {
      const float factor = __expf(tops[g] - highest);
      whole += factor * sums[g];
#pragma unroll
      for (int j = 0; j < kWide; ++j) AddTo(result[j], factor, totals[g][j][lane]);
    }
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      const int d = left + (j * LANES + lane) * 4;
      const float4 value = Scaled(result[j], 1 / whole);
      if (d < dim) out[d] = value.x;
      if (d + 1 < dim) out[d + 1] = value.y;
      if (d + 2 < dim) out[d + 2] = value.z;
      if (d + 3 < dim) out[d + 3] = value.w;
    }
  }
}
