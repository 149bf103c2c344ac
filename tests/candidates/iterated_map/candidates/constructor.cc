// Has code that runs when it is loaded: HOW 1 exits, 2 hangs, 3 opens a file, 4 fills a table that
// the entry needs, as honest kernels do.
#include <fcntl.h>
#include <kernelcast/candidate.h>
#include <unistd.h>

struct Table {
  float half;
  Table() : half(0) {
#if HOW == 1
    _exit(0);
#elif HOW == 2
    for (volatile int i = 0;; ++i) {
    }
#elif HOW == 3
    open("/etc/hostname", O_RDONLY);
#endif
    half = 0.5f;
  }
};
static Table table;

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0] * inputs[0].shape[1];
  for (int64_t i = 0; i < n; ++i) {
    float v = x[i];
    for (int step = 0; step < 40; ++step) v = table.half * v + 0.3f / (1 + v * v);
    y[i] = v + x[i] / 16;
  }
  return 0;
}
