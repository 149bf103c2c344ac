// Rows whose width is a multiple of WIDTH up to 8 * WIDTH get a loop with the number of pieces
// known at compile time; all others a plain loop.
#include <kernelcast/candidate.h>
#include <string.h>

template <int kPieces>
static void Gather(const float* __restrict table, const int32_t* __restrict index,
                   float* __restrict out, int64_t n) {
  const int64_t dim = kPieces * WIDTH;
  for (int64_t i = 0; i < n; ++i) {
#if AHEAD > 0
    if (i + AHEAD < n) __builtin_prefetch(table + index[i + AHEAD] * dim);
#endif
    memcpy(out + i * dim, table + index[i] * dim, dim * sizeof(float));
  }
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict table = kc_data<float>(inputs[0]);
  const int32_t* __restrict index = kc_data<int32_t>(inputs[1]);
  float* __restrict out = kc_data<float>(outputs[0]);
  const int64_t dim = inputs[0].shape[1];
  const int64_t n = inputs[1].shape[0];
  switch (dim % WIDTH == 0 ? dim / WIDTH : 0) {
    case 1: Gather<1>(table, index, out, n); break;
    case 2: Gather<2>(table, index, out, n); break;
    case 3: Gather<3>(table, index, out, n); break;
    case 4: Gather<4>(table, index, out, n); break;
    case 5: Gather<5>(table, index, out, n); break;
    case 6: Gather<6>(table, index, out, n); break;
    case 7: Gather<7>(table, index, out, n); break;
    case 8: Gather<8>(table, index, out, n); break;
    default:
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t d = 0; d < dim; ++d) out[i * dim + d] = table[index[i] * dim + d];
      }
  }
  return 0;
}
