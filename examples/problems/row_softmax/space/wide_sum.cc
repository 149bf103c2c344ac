// Accuracy first: the row sum is kept in double with PARTS partial sums, and the exponentials are
// taken in double or in float (EXP).
#include <kernelcast/candidate.h>
#include <math.h>

#define double_exp exp
#define float_exp expf

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const float* __restrict in = x + r * cols;
    float* __restrict out = y + r * cols;
    float top = in[0];
    for (int64_t c = 1; c < cols; ++c) top = in[c] > top ? in[c] : top;
    double sum[PARTS] = {};
    int64_t c = 0;
    for (; c + PARTS <= cols; c += PARTS) {
      for (int p = 0; p < PARTS; ++p) {
        const double e = EXP(in[c + p] - top);
        out[c + p] = (float)e;
        sum[p] += e;
      }
    }
    for (; c < cols; ++c) {
      const double e = EXP(in[c] - top);
      out[c] = (float)e;
      sum[0] += e;
    }
    for (int p = 1; p < PARTS; ++p) sum[0] += sum[p];
    const float scale = (float)(1.0 / sum[0]);
    for (c = 0; c < cols; ++c) out[c] *= scale;
  }
  return 0;
}
