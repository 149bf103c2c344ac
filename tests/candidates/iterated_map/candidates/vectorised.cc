// Right and faster: eight elements at a time.
#include <kernelcast/candidate.h>
#include <string.h>

typedef float Vec __attribute__((vector_size(32)));
typedef float LooseVec __attribute__((vector_size(32), aligned(4), may_alias));

static inline Vec Map(Vec x) {
  Vec v = x;
  for (int step = 0; step < 40; ++step) v = 0.5f * v + 0.3f / (1 + v * v);
  return v + x / 16;
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t n = inputs[0].shape[0] * inputs[0].shape[1];
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const Vec a = Map(*(const LooseVec*)(x + i));
    const Vec b = Map(*(const LooseVec*)(x + i + 8));
    *(LooseVec*)(y + i) = a;
    *(LooseVec*)(y + i + 8) = b;
  }
  while (i < n) {
    const int64_t left = n - i < 8 ? n - i : 8;
    Vec v = {};
    memcpy(&v, x + i, left * sizeof(float));
    v = Map(v);
    memcpy(y + i, &v, left * sizeof(float));
    i += left;
  }
  return 0;
}
