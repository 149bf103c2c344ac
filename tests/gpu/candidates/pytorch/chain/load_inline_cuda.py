import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/types.h>
#include <ATen/cuda/CUDAContext.h>
__global__ void chain(const float* x, const float* y, float* out, int n) {
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
torch::Tensor run(torch::Tensor x, torch::Tensor y) {
  auto out = torch::empty_like(x);
  const int n = x.size(1);
  chain<<<x.size(0), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""
built = load_inline(
    "chain",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor y);",
    cuda_sources=SOURCE,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return built.run(x, y)
