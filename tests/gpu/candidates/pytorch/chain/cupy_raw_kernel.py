import cupy
import torch
import torch.nn as nn

SOURCE = r"""
extern "C" __global__ void chain(const float* x, const float* y, float* out, int n) {
  __shared__ float sums[256];
  const float* row = x + (long long)blockIdx.x * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += row[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  for (int i = threadIdx.x; i < n; i += 256) {
    const long long at = (long long)blockIdx.x * n + i;
    out[at] = tanhf(x[at] * 1.5f + y[at]) / (1 + expf(-y[at])) + sums[0] / n;
  }
}
"""
kernel = cupy.RawKernel(SOURCE, "chain")


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            kernel((x.shape[0],), (256,), (cupy.asarray(x), cupy.asarray(y), cupy.asarray(out), x.shape[1]))
        return out
