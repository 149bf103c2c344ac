// A vector of LANES channels (VECS of them) for PIXELS neighbouring pixels of a row stays in
// registers while the nine taps are added. Pixels at the left and right edge, and channels that do
// not fill a vector, are handled apart.
#include <kernelcast/candidate.h>

#define WIDTH (LANES * VECS)

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

struct Image {
  const float* x;
  const float* filter;
  float* y;
  int64_t height, width, channels;
};

static void Scalar(const Image& image, int64_t i, int64_t j, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    float sum = 0;
    for (int64_t a = i > 0 ? 0 : 1; a < (i + 1 < image.height ? 3 : 2); ++a) {
      for (int64_t b = j > 0 ? 0 : 1; b < (j + 1 < image.width ? 3 : 2); ++b) {
        sum += image.x[((i + a - 1) * image.width + j + b - 1) * image.channels + c] *
               image.filter[(a * 3 + b) * image.channels + c];
      }
    }
    image.y[(i * image.width + j) * image.channels + c] = sum;
  }
}

template <int kPixels>
static inline void Block(const Image& image, int64_t i, int64_t j, int64_t c) {
  const int64_t channels = image.channels;
  Vec sum[kPixels][VECS] = {};
  for (int64_t a = i > 0 ? 0 : 1; a < (i + 1 < image.height ? 3 : 2); ++a) {
    const float* in = image.x + ((i + a - 1) * image.width + j - 1) * channels + c;
    const float* taps = image.filter + a * 3 * channels + c;
#pragma GCC unroll 3
    for (int b = 0; b < 3; ++b) {
#pragma GCC unroll 4
      for (int v = 0; v < VECS; ++v) {
        const Vec tap = *(const LooseVec*)(taps + b * channels + v * LANES);
#pragma GCC unroll 8
        for (int p = 0; p < kPixels; ++p) {
          sum[p][v] += tap * *(const LooseVec*)(in + (p + b) * channels + v * LANES);
        }
      }
    }
  }
  float* out = image.y + (i * image.width + j) * channels + c;
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < VECS; ++v) *(LooseVec*)(out + p * channels + v * LANES) = sum[p][v];
  }
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const Image image = {kc_data<float>(inputs[0]),  kc_data<float>(inputs[1]),
                       kc_data<float>(outputs[0]), inputs[0].shape[0],
                       inputs[0].shape[1],         inputs[0].shape[2]};
  const int64_t vector_channels = image.channels / WIDTH * WIDTH;
  for (int64_t i = 0; i < image.height; ++i) {
    Scalar(image, i, 0, 0, image.channels);
    for (int64_t c = 0; c < vector_channels; c += WIDTH) {
      int64_t j = 1;
      for (; j + PIXELS < image.width; j += PIXELS) Block<PIXELS>(image, i, j, c);
      for (; j + 1 < image.width; ++j) Block<1>(image, i, j, c);
    }
    for (int64_t j = 1; j + 1 < image.width; ++j) {
      Scalar(image, i, j, vector_channels, image.channels);
    }
    if (image.width > 1) Scalar(image, i, image.width - 1, 0, image.channels);
  }
  return 0;
}
