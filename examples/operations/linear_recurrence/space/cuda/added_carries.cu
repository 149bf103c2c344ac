// Mistake: the state before a chunk is the sum of the ends of all earlier chunks, without their gates.
extern "C" __global__ void __launch_bounds__(THREADS)
    chunk_ends(const float* __restrict__ gates, const float* __restrict__ x,
               float* __restrict__ ends, int length, int channels) {
  const int channel = blockIdx.x * THREADS + threadIdx.x;
  if (channel >= channels) return;
  const int from = blockIdx.y * CHUNK;
  const int to = min(from + CHUNK, length);
  const long long first = (long long)blockIdx.z * length * channels + channel;
  float state = 0;
  for (int t = from; t < to; ++t) {
    state = gates[first + (long long)t * channels] * state + x[first + (long long)t * channels];
  }
  ends[((long long)blockIdx.z * gridDim.y + blockIdx.y) * channels + channel] = state;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    chunk_states(const float* __restrict__ gates, const float* __restrict__ x,
                 const float* __restrict__ ends, float* __restrict__ states, int length,
                 int channels) {
  const int channel = blockIdx.x * THREADS + threadIdx.x;
  if (channel >= channels) return;
  const int from = blockIdx.y * CHUNK;
  const int to = min(from + CHUNK, length);
  const long long first = (long long)blockIdx.z * length * channels + channel;
  float state = 0;
  for (int c = 0; c < (int)blockIdx.y; ++c) {
    state += ends[((long long)blockIdx.z * gridDim.y + c) * channels + channel];
  }
  for (int t = from; t < to; ++t) {
    const long long at = first + (long long)t * channels;
    state = gates[at] * state + x[at];
    states[at] = state;
  }
}
