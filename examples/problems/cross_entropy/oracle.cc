// Log-sum-exp in double precision.
#include <kernelcast/candidate.h>
#include <math.h>

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  const int32_t* labels = kc_data<int32_t>(inputs[1]);
  double* loss = kc_data<double>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t classes = inputs[0].shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    double top = x[r * classes];
    for (int64_t c = 1; c < classes; ++c) top = fmax(top, (double)x[r * classes + c]);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += exp((double)x[r * classes + c] - top);
    loss[r] = log(sum) + top - x[r * classes + labels[r]];
  }
  return 0;
}
