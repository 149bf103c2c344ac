// SIDE x SIDE blocks transposed in vector registers by log2(SIDE) rounds of interleaving. Blocks
// are visited inside bands of BAND rows; edges are scalar.
#include <kernelcast/candidate.h>

typedef float Vec __attribute__((vector_size(4 * SIDE)));
typedef int32_t IntVec __attribute__((vector_size(4 * SIDE)));
typedef float LooseVec __attribute__((vector_size(4 * SIDE), aligned(4), may_alias));

static_assert((SIDE & (SIDE - 1)) == 0, "the rounds of interleaving need a power of two");

#define INLINE static inline __attribute__((always_inline))

// The lower (kHigh == false) or upper halves of a and b, interleaved element by element.
template <bool kHigh>
INLINE Vec Interleave(Vec a, Vec b) {
  IntVec pick;
  for (int i = 0; i < SIDE; ++i) pick[i] = (kHigh ? SIDE / 2 : 0) + i / 2 + (i % 2) * SIDE;
  return __builtin_shuffle(a, b, pick);
}

INLINE void Block(const float* __restrict x, float* __restrict y, int64_t cols, int64_t rows) {
  Vec v[SIDE];
  Vec w[SIDE];
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; ++i) v[i] = *(const LooseVec*)(x + i * cols);
#pragma GCC unroll 4
  for (int round = 1; round < SIDE; round *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < SIDE / 2; ++i) {
      w[2 * i] = Interleave<false>(v[i], v[i + SIDE / 2]);
      w[2 * i + 1] = Interleave<true>(v[i], v[i + SIDE / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; ++i) v[i] = w[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; ++i) *(LooseVec*)(y + i * rows) = v[i];
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  const int64_t block_rows = rows / SIDE * SIDE;
  const int64_t block_cols = cols / SIDE * SIDE;
  for (int64_t band = 0; band < block_rows; band += BAND) {
    const int64_t end = band + BAND < block_rows ? band + BAND : block_rows;
#if WALK == 0
    for (int64_t r = band; r < end; r += SIDE) {
      for (int64_t c = 0; c < block_cols; c += SIDE) {
        Block(x + r * cols + c, y + c * rows + r, cols, rows);
      }
    }
#else
    for (int64_t c = 0; c < block_cols; c += SIDE) {
      for (int64_t r = band; r < end; r += SIDE) {
        Block(x + r * cols + c, y + c * rows + r, cols, rows);
      }
    }
#endif
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < block_rows ? block_cols : 0; c < cols; ++c) {
      y[c * rows + r] = x[r * cols + c];
    }
  }
  return 0;
}
