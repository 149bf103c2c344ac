// Kernels that each spend their time on one GPU mechanism. measure.py times them on a device; the
// virtual GPU estimates them from their PTX. All kernels have the same arguments: `n` is the work
// per thread, `s` what the kernel varies (a stride, a number of counters).

#define KERNEL(name)                                                                     \
  extern "C" __global__ void name(float* __restrict__ out, const float* __restrict__ in, \
                                  unsigned* __restrict__ counts, int n, int s)
#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)

KERNEL(nothing) {}
// Blocks that do little: each thread copies one element.
KERNEL(copy_once) {
  if (THREAD < n) out[THREAD] = in[THREAD];
}
KERNEL(copy_once_4) {
  if (THREAD < n / 4)
    reinterpret_cast<float4*>(out)[THREAD] = reinterpret_cast<const float4*>(in)[THREAD];
}
// Each block copies a row of s floats, from anywhere.
KERNEL(copy_rows) {
  const long long from = static_cast<long long>(blockIdx.x * 2654435761u % (n / s)) * s;
  const long long to = static_cast<long long>(blockIdx.x) * s;
  for (int k = threadIdx.x; k < s; k += blockDim.x) out[to + k] = in[from + k];
}

// --- Atomics -------------------------------------------------------------------------------------
// Every lane of every warp to s counters: lane l to counter (l % s) * n.
KERNEL(atomic_lanes) {
  unsigned* to = counts + (threadIdx.x % 32 % s) * n;
  for (int k = 0; k < 8; ++k) atomicAdd(to, threadIdx.x + k);
}
KERNEL(atomic_lanes_float) {
  float* to = out + (threadIdx.x % 32 % s) * n;
  for (int k = 0; k < 8; ++k) atomicAdd(to, 1.0f + k);
}
// Uses the old value: s counters that neighbours share.
KERNEL(atomic_returns) {
  unsigned value = THREAD;
  for (int k = 0; k < n; ++k)
    value = atomicAdd(counts + (value * 2654435761u >> 8) % s, 1u) + THREAD;
  if (value == 12345u) out[0] = 1;
}
// Spread over s counters.
KERNEL(atomic_spread) {
  unsigned at = THREAD * 2654435761u;
  for (int k = 0; k < n; ++k) {
    at = at * 1664525u + 1013904223u;
    atomicAdd(counts + (at >> 8) % s, 1u);
  }
}
KERNEL(atomic_shared) {
  __shared__ unsigned bins[1024];
  for (int k = threadIdx.x; k < 1024; k += blockDim.x) bins[k] = 0;
  __syncthreads();
  unsigned at = THREAD * 2654435761u;
  for (int k = 0; k < n; ++k) {
    at = at * 1664525u + 1013904223u;
    atomicAdd(bins + (at >> 8) % s, 1u);
  }
  __syncthreads();
  out[THREAD] = bins[threadIdx.x];
}
KERNEL(atomic_shared_float) {
  __shared__ float bins[1024];
  for (int k = threadIdx.x; k < 1024; k += blockDim.x) bins[k] = 0;
  __syncthreads();
  unsigned at = THREAD * 2654435761u;
  for (int k = 0; k < n; ++k) {
    at = at * 1664525u + 1013904223u;
    atomicAdd(bins + (at >> 8) % s, 1.0f);
  }
  __syncthreads();
  out[THREAD] = bins[threadIdx.x];
}

// --- Local memory --------------------------------------------------------------------------------
template <int kWords>
__device__ void Spill(float* out, int n, int s) {
  float kept[kWords];
  for (int k = 0; k < kWords; ++k) kept[k] = k + threadIdx.x;
  int at = threadIdx.x % kWords;
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    sum += kept[at];
    kept[at] = sum;
    at = (at + s) % kWords;
  }
  out[THREAD] = sum + kept[at];
}
KERNEL(spill_16) { Spill<16>(out, n, s); }
KERNEL(spill_64) { Spill<64>(out, n, s); }
KERNEL(spill_256) { Spill<256>(out, n, s); }

// --- Global memory -------------------------------------------------------------------------------
// Each thread reads one float of every s; n floats in all.
KERNEL(strided_read) {
  const long long at = static_cast<long long>(THREAD) * s;
  if (at < n) out[THREAD] = in[at] + 1;
}
KERNEL(strided_write) {
  const long long at = static_cast<long long>(THREAD) * s;
  if (at < n) out[at] = 1;
}
// A matrix with rows of s floats, read by columns.
KERNEL(column_walk) {
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += in[(static_cast<long long>(THREAD) * n + k) % (1 << 26)];
  out[THREAD] = sum;
}
KERNEL(copy_loop) {
  for (int k = THREAD; k < n; k += gridDim.x * blockDim.x) out[k] = in[k] * 2;
}
// All blocks repeatedly read the same s floats.
KERNEL(persistent_shared) {
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    for (int at = threadIdx.x; at < s; at += blockDim.x) sum += in[at];
  }
  out[THREAD] = sum;
}
// Each block repeatedly reads its own s floats.
KERNEL(persistent_own) {
  const float* mine = in + static_cast<long long>(blockIdx.x) * s;
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    for (int at = threadIdx.x; at < s; at += blockDim.x) sum += mine[at];
  }
  out[THREAD] = sum;
}
// Tiles of s floats: every block reads every tile, each in another order.
KERNEL(persistent_tiles) {
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    const float4* tile = reinterpret_cast<const float4*>(in) +
                         static_cast<long long>((blockIdx.x + k) % gridDim.x) * (s / 4);
    for (int at = threadIdx.x; at < s / 4; at += blockDim.x) {
      const float4 v = tile[at];
      sum += v.x + v.y + v.z + v.w;
    }
  }
  out[THREAD] = sum;
}

// --- Dependency chains ---------------------------------------------------------------------------
#define CHAIN(name, step)                 \
  KERNEL(name) {                          \
    float x = in[THREAD];                 \
    const float y = in[THREAD + 1];       \
    for (int k = 0; k < n; ++k) x = step; \
    out[THREAD] = x;                      \
  }
CHAIN(chain_fma, fmaf(x, y, 0.5f))
CHAIN(chain_exp, __expf(x) - y)
CHAIN(chain_expf, expf(-x) + y)
CHAIN(chain_divide, y / (x + 2.0f))
CHAIN(chain_root, sqrtf(x + y))
CHAIN(chain_sine, sinf(x))
CHAIN(chain_tanh, tanhf(x) + y)
CHAIN(chain_log, logf(x + 2.0f))
CHAIN(chain_power, powf(x, y))
CHAIN(chain_shuffle, __shfl_xor_sync(0xffffffff, x, 1) + y)
KERNEL(chain_double) {
  double x = in[THREAD];
  for (int k = 0; k < n; ++k) x = fma(x, 0.999, 0.5);
  out[THREAD] = x;
}
KERNEL(chain_double_divide) {
  double x = in[THREAD];
  for (int k = 0; k < n; ++k) x = 1.0 / (x + 2.0);
  out[THREAD] = x;
}
KERNEL(chain_integer_divide) {
  int x = THREAD + 1000000000;
  for (int k = 0; k < n; ++k) x = x / s + 1000000000;
  out[THREAD] = x;
}
KERNEL(chain_integer) {
  unsigned x = THREAD;
  for (int k = 0; k < n; ++k) x = x * s + (x >> 3);
  out[THREAD] = x;
}
// counts[k] = (k + 56) % 2^20, as measure.py fills it.
KERNEL(chain_load) {
  unsigned at = threadIdx.x / 32 * 8;
  for (int k = 0; k < n; ++k) at = __ldcg(counts + at);
  out[THREAD] = at;
}
KERNEL(chain_load_cached) {
  unsigned at = 0;
  for (int k = 0; k < n; ++k) at = counts[at] & (s - 1);
  out[THREAD] = at;
}
KERNEL(chain_shared) {
  __shared__ unsigned next[1024];
  for (int k = threadIdx.x; k < 1024; k += blockDim.x) next[k] = (k + s) % 1024;
  __syncthreads();
  unsigned at = threadIdx.x;
  for (int k = 0; k < n; ++k) at = next[at];
  out[THREAD] = at;
}
KERNEL(chain_barrier) {
  __shared__ float cell[1024];
  cell[threadIdx.x] = in[THREAD];
  for (int k = 0; k < n; ++k) {
    __syncthreads();
    const float other = cell[(threadIdx.x + 1) % blockDim.x];
    __syncthreads();
    cell[threadIdx.x] = other + 1;
  }
  out[THREAD] = cell[threadIdx.x];
}
// One thread of the block processes n elements, like a naive scan.
KERNEL(chain_one_thread) {
  if (threadIdx.x != 0) return;
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    sum += in[blockIdx.x * n + k];
    out[blockIdx.x * n + k] = sum;
  }
}

// --- Branches and passes -------------------------------------------------------------------------
// Eight loads, each behind a check of its own that ptxas turns into a predicate.
KERNEL(checked_loads) {
  float value[8] = {};
  for (int k = 0; k < 8; ++k) {
    const int at = THREAD + k * s;
    if (at < n) value[k] = in[at];
  }
  float sum = 0;
  for (int k = 0; k < 8; ++k) sum += value[k];
  out[THREAD] = sum;
}
// Eight loads, each behind a check and used there, one after the other.
KERNEL(checked_sums) {
  float sum = 0;
  for (int k = 0; k < 8; ++k) {
    const int at = THREAD + k * s;
    if (at < n) sum += in[at];
  }
  out[THREAD] = sum;
}
// Each block reads its row of s floats n times; each pass needs the one before.
KERNEL(row_passes) {
  __shared__ float total;
  const float* row = in + static_cast<long long>(blockIdx.x) * s;
  float sum = 0;
  for (int pass = 0; pass < n; ++pass) {
    if (threadIdx.x == 0) total = sum;
    __syncthreads();
    const float before = total;
    for (int k = threadIdx.x; k < s; k += blockDim.x) sum += row[k] * before;
    __syncthreads();
  }
  out[THREAD] = sum;
}
// The nine neighbours of each element of a matrix with rows of s floats; n elements.
KERNEL(neighbours) {
  if (THREAD + 2 * s + 2 >= n) return;
  float sum = 0;
  for (int y = 0; y < 3; ++y) {
    for (int x = 0; x < 3; ++x) sum += in[THREAD + y * s + x];
  }
  out[THREAD] = sum;
}

// --- Tensor cores and conversions ----------------------------------------------------------------
// Factors change, so that the work on one product cannot serve another.
#define PRODUCTS(name, shape, types)                                                     \
  KERNEL(name) {                                                                         \
    float d[4][4] = {};                                                                  \
    const unsigned a = __float_as_uint(in[THREAD]), b = __float_as_uint(in[THREAD + 1]); \
    for (int k = 0; k < n; ++k) {                                                        \
      for (int i = 0; i < 4; ++i)                                                        \
        asm volatile("mma.sync.aligned." shape ".row.col.f32." types                     \
                     ".f32 "                                                             \
                     "{%0, %1, %2, %3}, {%4, %5, %4, %5}, {%5, %4}, {%0, %1, %2, %3};"   \
                     : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])        \
                     : "r"(a + k * 4 + i), "r"(b ^ k * 4 + i));                          \
    }                                                                                    \
    out[THREAD] = d[0][0] + d[1][1] + d[2][2] + d[3][3];                                 \
  }
PRODUCTS(products_half, "m16n8k16", "f16.f16")
PRODUCTS(products_float8, "m16n8k32", "e4m3.e4m3")
#define CONVERSIONS(name, instruction, constraint, type)                                    \
  KERNEL(name) {                                                                            \
    float x[4] = {in[THREAD], in[THREAD + 1], in[THREAD + 2], in[THREAD + 3]};              \
    unsigned sum = 0;                                                                       \
    for (int k = 0; k < n; ++k) {                                                           \
      for (int i = 0; i < 4; ++i) {                                                         \
        type pair;                                                                          \
        asm volatile(instruction " %0, %1, %2;" : constraint(pair) : "f"(x[i]), "f"(x[0])); \
        sum ^= pair;                                                                        \
        x[i] *= 1.5f;                                                                       \
      }                                                                                     \
    }                                                                                       \
    out[THREAD] = sum;                                                                      \
  }
CONVERSIONS(convert_float8, "cvt.rn.satfinite.e4m3x2.f32", "=h", unsigned short)
CONVERSIONS(convert_half, "cvt.rn.f16x2.f32", "=r", unsigned)

// --- Waiting for other blocks --------------------------------------------------------------------
// counts are 0 at the start.
// Each block waits for the one before it.
KERNEL(block_chain) {
  if (threadIdx.x == 0) {
    const volatile unsigned* before = counts + blockIdx.x - 1;
    if (blockIdx.x > 0) {
      while (*before == 0) {
      }
    }
    __threadfence();
    *const_cast<volatile unsigned*>(counts + blockIdx.x) = 1;
  }
  __syncthreads();
  out[THREAD] = in[THREAD];
}
// Each block publishes its part, and walks back over parts until it finds a result.
KERNEL(look_back) {
  if (threadIdx.x == 0) {
    volatile unsigned* const flags = counts;
    flags[blockIdx.x] = blockIdx.x == 0 ? 2 : 1;
    __threadfence();
    for (int at = static_cast<int>(blockIdx.x) - 1; at >= 0;) {
      const unsigned flag = flags[at];
      if (flag == 2) break;
      if (flag == 1) --at;
    }
    __threadfence();
    flags[blockIdx.x] = 2;
  }
  __syncthreads();
  out[THREAD] = in[THREAD];
}

// --- Shared memory -------------------------------------------------------------------------------
// Neighbouring lanes are s words apart: gcd(s, 32) of them share a bank.
KERNEL(bank_read) {
  __shared__ float tile[32 * 33];
  for (int k = threadIdx.x; k < 32 * 33; k += blockDim.x) tile[k] = k;
  __syncthreads();
  const float* from = tile + threadIdx.x % 32 * s;
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    sum += *const_cast<volatile const float*>(from);
    sum += *const_cast<volatile const float*>(from + (k & 1));
  }
  out[THREAD] = sum;
}
KERNEL(bank_write) {
  __shared__ float tile[32 * 33];
  volatile float* to = tile + threadIdx.x % 32 * s;
  for (int k = 0; k < n; ++k) {
    *to = k;
    *to = k + 1;
  }
  __syncthreads();
  out[THREAD] = tile[threadIdx.x];
}
KERNEL(transpose_naive) {
  __shared__ float tile[32 * 33];
  const int x = threadIdx.x % 32;
  const int y = threadIdx.x / 32;
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    tile[y * s + x] = sum + k;
    __syncthreads();
    sum += tile[x * s + y];
    __syncthreads();
  }
  out[THREAD] = sum;
}
