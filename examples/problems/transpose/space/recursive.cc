// Cache-oblivious: the longer side is halved until a piece has at most LEAF rows and columns.
#include <kernelcast/candidate.h>

static void Turn(const float* __restrict x, float* __restrict y, int64_t r0, int64_t r1, int64_t c0,
                 int64_t c1, int64_t rows, int64_t cols) {
  const int64_t height = r1 - r0;
  const int64_t width = c1 - c0;
  if (height <= LEAF && width <= LEAF) {
    for (int64_t c = c0; c < c1; ++c) {
      for (int64_t r = r0; r < r1; ++r) y[c * rows + r] = x[r * cols + c];
    }
  } else if (height >= width) {
    const int64_t middle = r0 + (height / 2 + ALIGN - 1) / ALIGN * ALIGN;
    Turn(x, y, r0, middle, c0, c1, rows, cols);
    Turn(x, y, middle, r1, c0, c1, rows, cols);
  } else {
    const int64_t middle = c0 + (width / 2 + ALIGN - 1) / ALIGN * ALIGN;
    Turn(x, y, r0, r1, c0, middle, rows, cols);
    Turn(x, y, r0, r1, middle, c1, rows, cols);
  }
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  Turn(kc_data<float>(inputs[0]), kc_data<float>(outputs[0]), 0, rows, 0, cols, rows, cols);
  return 0;
}
