// Blocks of ROWS output rows: the first sweep's rows for a block, one more above and below, go into
// a small buffer, from which the second sweep writes the output. A sweep walks down a block in
// columns of LANES points and keeps the sums along the last three rows in registers.
#include <kernelcast/candidate.h>
#include <stdlib.h>

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef float LooseVec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// A view of consecutive rows, of which rows first <= i < last exist; the others count as zeros.
struct Grid {
  const float* data;
  int64_t pitch, width, first, last;
};

static inline __attribute__((always_inline)) Vec Along(Grid g, int64_t i, int64_t j) {
  if (i < g.first || i >= g.last) return Vec{};
  const float* p = g.data + i * g.pitch + j;
  return *(const LooseVec*)(p - 1) + 2 * *(const LooseVec*)p + *(const LooseVec*)(p + 1);
}

static __attribute__((noinline)) float Point(Grid g, int64_t i, int64_t j) {
  float sum = 0;
  for (int64_t d = -1; d <= 1; ++d) {
    if (i + d < g.first || i + d >= g.last) continue;
    const float* p = g.data + (i + d) * g.pitch + j;
    float along = 2 * p[0];
    if (j > 0) along += p[-1];
    if (j + 1 < g.width) along += p[1];
    sum += d == 0 ? 2 * along : along;
  }
  return sum * 0.0625f;
}

// Writes the smoothed rows begin <= i < end; row `begin` goes to the start of `to`.
static void Sweep(Grid g, int64_t begin, int64_t end, float* to, int64_t to_pitch) {
  // The rows before inner_end have a row below them.
  const int64_t inner_end = end < g.last ? end : g.last - 1;
  int64_t j = 1;
  for (; j + LANES < g.width; j += LANES) {
    Vec above = Along(g, begin - 1, j);
    Vec here = Along(g, begin, j);
    const float* next = g.data + (begin + 1) * g.pitch + j;
    float* out = to + j;
    for (int64_t i = begin; i < inner_end; ++i, next += g.pitch, out += to_pitch) {
      const Vec below =
          *(const LooseVec*)(next - 1) + 2 * *(const LooseVec*)next + *(const LooseVec*)(next + 1);
      *(LooseVec*)out = (above + 2 * here + below) * 0.0625f;
      above = here;
      here = below;
    }
    if (inner_end < end) *(LooseVec*)out = (above + 2 * here) * 0.0625f;
  }
  for (int64_t i = begin; i < end; ++i) {
    float* out = to + (i - begin) * to_pitch;
    out[0] = Point(g, i, 0);
    for (int64_t c = j; c < g.width; ++c) out[c] = Point(g, i, c);
  }
}

extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  float* y = kc_data<float>(outputs[0]);
  const int64_t height = inputs[0].shape[0];
  const int64_t width = inputs[0].shape[1];
  const int64_t pitch = (width + 15) / 16 * 16;
  float* middle = (float*)malloc((ROWS + 2) * pitch * sizeof(float));
  if (middle == nullptr) return 1;
  const Grid input = {x, width, width, 0, height};
  for (int64_t top = 0; top < height; top += ROWS) {
    const int64_t bottom = height - top < ROWS ? height : top + ROWS;
    const int64_t begin = top > 0 ? top - 1 : 0;
    const int64_t end = bottom < height ? bottom + 1 : height;
    Sweep(input, begin, end, middle, pitch);
    const Grid smoothed = {middle, pitch, width, 0, end - begin};
    Sweep(smoothed, top - begin, bottom - begin, y + top * width, width);
  }
  free(middle);
  return 0;
}
