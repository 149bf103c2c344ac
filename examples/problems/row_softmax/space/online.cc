// Online softmax: maximum and sum in one pass over chunks of CHUNK elements. When a chunk raises
// the maximum, the sum so far is rescaled. KEEP == 1 stores each chunk's exponentials and later
// corrects them by one factor a chunk; KEEP == 0 computes the exponentials again.
#include <kernelcast/candidate.h>
#include <math.h>

#define MAX_CHUNKS 256

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t rows = inputs[0].shape[0];
  const int64_t cols = inputs[0].shape[1];
  float chunk_top[MAX_CHUNKS];
  const bool keep = KEEP && (cols + CHUNK - 1) / CHUNK <= MAX_CHUNKS;
  for (int64_t r = 0; r < rows; ++r) {
    const float* __restrict in = x + r * cols;
    float* __restrict out = y + r * cols;
    float top = in[0];
    float sum = 0;
    for (int64_t begin = 0, k = 0; begin < cols; begin += CHUNK, ++k) {
      const int64_t end = begin + CHUNK < cols ? begin + CHUNK : cols;
      float here = in[begin];
      for (int64_t c = begin + 1; c < end; ++c) here = in[c] > here ? in[c] : here;
      if (here > top) {
        sum *= expf(top - here);
        top = here;
      }
      float part = 0;
      if (keep) {
        for (int64_t c = begin; c < end; ++c) {
          const float e = expf(in[c] - top);
          out[c] = e;
          part += e;
        }
        chunk_top[k] = top;
      } else {
        for (int64_t c = begin; c < end; ++c) part += expf(in[c] - top);
      }
      sum += part;
    }
    const float scale = 1.0f / sum;
    if (keep) {
      for (int64_t begin = 0, k = 0; begin < cols; begin += CHUNK, ++k) {
        const int64_t end = begin + CHUNK < cols ? begin + CHUNK : cols;
        const float factor = chunk_top[k] == top ? scale : scale * expf(chunk_top[k] - top);
        for (int64_t c = begin; c < end; ++c) out[c] *= factor;
      }
    } else {
      for (int64_t c = 0; c < cols; ++c) out[c] = expf(in[c] - top) * scale;
    }
  }
  return 0;
}
