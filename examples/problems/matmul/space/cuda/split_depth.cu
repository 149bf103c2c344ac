// Register tiles over SPLITS shares of the depth, added up by a second launch.
extern "C" __global__ void __launch_bounds__(BM* BN / TM / TN)
    split_depth(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ parts,
                long long m_wide, long long n_wide, long long k_wide) {
  const int m = (int)m_wide;
  const int n = (int)n_wide;
  const int k = (int)k_wide;
  constexpr int kThreads = BM * BN / TM / TN;
  constexpr int kAcross = BN / TN;
  constexpr int kPartsA = (BM * BK + kThreads - 1) / kThreads;
  constexpr int kPartsB = (BK * BN + kThreads - 1) / kThreads;
  // Columns of a tile of `a` are padded apart, for they are written down them.
  __shared__ float tile_a[1][BK][BM + 4];
  __shared__ float tile_b[1][BK][BN];
  const int thread = threadIdx.x;
  const int down = thread / kAcross;
  const int across = thread % kAcross;
  const int top = blockIdx.y * BM;
  const int left = blockIdx.x * BN;
  const int depth = ((k + SPLITS - 1) / SPLITS + BK - 1) / BK * BK;
  const int begin = min((int)blockIdx.z * depth, k);
  const int end = min(begin + depth, k);
  float held_a[kPartsA];
  float held_b[kPartsB];
  const auto fetch = [&](int p) {
#pragma unroll
    for (int i = 0; i < kPartsA; ++i) {
      const int e = i * kThreads + thread;
      const int row = top + e / BK;
      const int q = p + e % BK;
      held_a[i] = e < BM * BK && row < m && q < end ? a[(long long)row * k + q] : 0;
    }
#pragma unroll
    for (int i = 0; i < kPartsB; ++i) {
      const int e = i * kThreads + thread;
      const int q = p + e / BN;
      const int column = left + e % BN;
      held_b[i] = e < BK * BN && q < end && column < n ? b[(long long)q * n + column] : 0;
    }
  };
  const auto store = [&](int buffer) {
#pragma unroll
    for (int i = 0; i < kPartsA; ++i) {
      const int e = i * kThreads + thread;
      if (e < BM * BK) tile_a[buffer][e % BK][e / BK] = held_a[i];
    }
#pragma unroll
    for (int i = 0; i < kPartsB; ++i) {
      const int e = i * kThreads + thread;
      if (e < BK * BN) tile_b[buffer][e / BN][e % BN] = held_b[i];
    }
  };
  float sum[TM][TN] = {};
  const auto multiply = [&](int buffer) {
#pragma unroll
    for (int q = 0; q < BK; ++q) {
      float left_factor[TM];
      float right_factor[TN];
#pragma unroll
      for (int i = 0; i < TM; ++i) left_factor[i] = tile_a[buffer][q][down * TM + i];
#pragma unroll
      for (int j = 0; j < TN; ++j) right_factor[j] = tile_b[buffer][q][j * kAcross + across];
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) sum[i][j] += left_factor[i] * right_factor[j];
      }
    }
  };
  for (int p = begin; p < end; p += BK) {
    fetch(p);
    __syncthreads();
    store(0);
    __syncthreads();
    multiply(0);
  }
#pragma unroll
  for (int i = 0; i < TM; ++i) {
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const int row = top + down * TM + i;
      const int column = left + j * kAcross + across;
      if (row < m && column < n) parts[((long long)blockIdx.z * m + row) * n + column] = sum[i][j];
    }
  }
}

extern "C" __global__ void __launch_bounds__(256)
    total(const float* __restrict__ parts, float* __restrict__ c, long long m, long long n) {
  const long long e = blockIdx.x * 256ll + threadIdx.x;
  if (e >= m * n) return;
  float sum = 0;
  for (int s = 0; s < SPLITS; ++s) sum += parts[s * m * n + e];
  c[e] = sum;
}
