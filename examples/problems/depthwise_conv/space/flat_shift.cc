// The image is one long array of pixels, each tap a constant shift of it. PIXELS pixels go together
// for every vector of LANES channels; shifts that leave the array are skipped.
#include <kernelcast/candidate.h>
#include <string.h>

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* __restrict x = kc_data<float>(inputs[0]);
  const float* __restrict filter = kc_data<float>(inputs[1]);
  float* __restrict y = kc_data<float>(outputs[0]);
  const int64_t width = inputs[0].shape[1];
  const int64_t channels = inputs[0].shape[2];
  const int64_t pixels = inputs[0].shape[0] * width;
  const int64_t vector_channels = channels / LANES * LANES;
  for (int64_t first = 0; first < pixels; first += PIXELS) {
    const int64_t count = pixels - first < PIXELS ? pixels - first : PIXELS;
    memset(y + first * channels, 0, count * channels * sizeof(float));
    for (int64_t a = -1; a <= 1; ++a) {
      for (int64_t b = -1; b <= 1; ++b) {
        const int64_t shift = a * width + b;
        const float* tap = filter + ((a + 1) * 3 + b + 1) * channels;
        for (int64_t p = first; p < first + count; ++p) {
          if (p + shift < 0 || p + shift >= pixels) continue;
          const float* in = x + (p + shift) * channels;
          float* out = y + p * channels;
          int64_t c = 0;
          for (; c < vector_channels; c += LANES) {
            *(LooseVec*)(out + c) += *(const LooseVec*)(in + c) * *(const LooseVec*)(tap + c);
          }
          for (; c < channels; ++c) out[c] += in[c] * tap[c];
        }
      }
    }
  }
  return 0;
}
