// Plain loops without tiles. ORDER says which side is contiguous; STEP neighbouring lines of the
// contiguous side go together.
#include <kernelcast/candidate.h>

#define read_rows 0
#define write_rows 1

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
#if ORDER == read_rows
  int64_t r = 0;
  for (; r + STEP <= rows; r += STEP) {
    for (int64_t c = 0; c < cols; ++c) {
      for (int s = 0; s < STEP; ++s) y[c * rows + r + s] = x[(r + s) * cols + c];
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) y[c * rows + r] = x[r * cols + c];
  }
#else
  int64_t c = 0;
  for (; c + STEP <= cols; c += STEP) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int s = 0; s < STEP; ++s) y[(c + s) * rows + r] = x[r * cols + c + s];
    }
  }
  for (; c < cols; ++c) {
    for (int64_t r = 0; r < rows; ++r) y[c * rows + r] = x[r * cols + c];
  }
#endif
  return 0;
}
