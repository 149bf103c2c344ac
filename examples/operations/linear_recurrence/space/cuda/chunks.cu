// Time in chunks: their products of gates and their last states, then the state before each chunk, and
// then all states. Gates and inputs are read twice.
extern "C" __global__ void __launch_bounds__(THREADS)
    chunk_ends(const float* __restrict__ gates, const float* __restrict__ x,
               float2* __restrict__ ends, int length, int channels) {
  const int channel = blockIdx.x * THREADS + threadIdx.x;
  if (channel >= channels) return;
  const int from = blockIdx.y * CHUNK;
  const int to = min(from + CHUNK, length);
  const long long first = (long long)blockIdx.z * length * channels + channel;
  float product = 1;
  float state = 0;
#pragma unroll UNROLL
  for (int t = from; t < to; ++t) {
    const float gate = gates[first + (long long)t * channels];
    state = gate * state + x[first + (long long)t * channels];
    product *= gate;
  }
  ends[((long long)blockIdx.z * gridDim.y + blockIdx.y) * channels + channel] = make_float2(product, state);
}

// Replaces the end of each chunk by the state before it.
extern "C" __global__ void __launch_bounds__(64)
    carries(float2* __restrict__ ends, int chunks, int channels) {
  const int channel = blockIdx.x * 64 + threadIdx.x;
  if (channel >= channels) return;
  float state = 0;
  for (int c = 0; c < chunks; ++c) {
    float2* const at = ends + ((long long)blockIdx.y * chunks + c) * channels + channel;
    const float2 end = *at;
    at->y = state;
    state = end.x * state + end.y;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    chunk_states(const float* __restrict__ gates, const float* __restrict__ x,
                 const float2* __restrict__ ends, float* __restrict__ states, int length,
                 int channels) {
  const int channel = blockIdx.x * THREADS + threadIdx.x;
  if (channel >= channels) return;
  const int from = blockIdx.y * CHUNK;
  const int to = min(from + CHUNK, length);
  const long long first = (long long)blockIdx.z * length * channels + channel;
  float state = ends[((long long)blockIdx.z * gridDim.y + blockIdx.y) * channels + channel].y;
#pragma unroll UNROLL
  for (int t = from; t < to; ++t) {
    const long long at = first + (long long)t * channels;
    state = gates[at] * state + x[at];
    states[at] = state;
  }
}
