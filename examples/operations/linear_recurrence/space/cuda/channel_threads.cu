// A thread for each channel goes along time. It loads AHEAD steps at once, whose latencies overlap.
extern "C" __global__ void __launch_bounds__(THREADS)
    channel_threads(const float* __restrict__ gates, const float* __restrict__ x,
                    float* __restrict__ states, int length, int channels) {
  const int channel = blockIdx.x * THREADS + threadIdx.x;
  if (channel >= channels) return;
  const long long first = (long long)blockIdx.y * length * channels + channel;
  float state = 0;
  int t = 0;
  for (; t + AHEAD <= length; t += AHEAD) {
    float gate[AHEAD];
    float value[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      gate[i] = gates[first + (long long)(t + i) * channels];
      value[i] = x[first + (long long)(t + i) * channels];
    }
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      state = gate[i] * state + value[i];
      states[first + (long long)(t + i) * channels] = state;
    }
  }
  for (; t < length; ++t) {
    const long long at = first + (long long)t * channels;
    state = gates[at] * state + x[at];
    states[at] = state;
  }
}
