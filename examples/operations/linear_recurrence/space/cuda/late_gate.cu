// Mistake: the gate is loaded one step ahead and used one step late, so that each state has the gate of
// the step before.
extern "C" __global__ void __launch_bounds__(THREADS)
    late_gate(const float* __restrict__ gates, const float* __restrict__ x,
              float* __restrict__ states, int length, int channels) {
  const int channel = blockIdx.x * THREADS + threadIdx.x;
  if (channel >= channels) return;
  const long long first = (long long)blockIdx.y * length * channels + channel;
  float state = 0;
  float next = gates[first];
#pragma unroll UNROLL
  for (int t = 0; t < length; ++t) {
    const long long at = first + (long long)t * channels;
    state = next * state + x[at];
    next = gates[at];
    states[at] = state;
  }
}
