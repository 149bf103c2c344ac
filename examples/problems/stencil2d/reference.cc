// Two sweeps over grids with a border of zeros, so that no point needs a special case.
#include <kernelcast/candidate.h>
#include <stdlib.h>
#include <string.h>

static void Sweep(const float* from, int64_t from_width, float* to, int64_t to_width,
                  int64_t height, int64_t width) {
  for (int64_t i = 0; i < height; ++i) {
    const float* a = from + i * from_width;
    const float* b = a + from_width;
    const float* c = b + from_width;
    float* out = to + i * to_width;
    for (int64_t j = 0; j < width; ++j) {
      out[j] = (a[j] + 2 * a[j + 1] + a[j + 2] + 2 * b[j] + 4 * b[j + 1] + 2 * b[j + 2] + c[j] +
                2 * c[j + 1] + c[j + 2]) /
               16;
    }
  }
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  const int64_t height = inputs[0].shape[0];
  const int64_t width = inputs[0].shape[1];
  const int64_t padded = width + 2;
  float* first = (float*)calloc((height + 2) * padded, sizeof(float));
  float* second = (float*)calloc((height + 2) * padded, sizeof(float));
  if (first == nullptr || second == nullptr) return 1;
  for (int64_t i = 0; i < height; ++i) {
    memcpy(first + (i + 1) * padded + 1, x + i * width, width * sizeof(float));
  }
  Sweep(first, padded, second + padded + 1, padded, height, width);
  Sweep(second, padded, kc_data<float>(outputs[0]), width, height, width);
  free(first);
  free(second);
  return 0;
}
