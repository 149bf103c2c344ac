"""One block per row; a helper with @triton.jit, and sizes from strides."""

import torch
import triton
import triton.language as tl
from triton.language import exp as exponential

LOWEST: tl.constexpr = tl.constexpr(-1e30)


@triton.jit
def row_maximum(value):
    return tl.max(value, axis=0)


@triton.jit
def softmax(out, x, x_stride, out_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    value = tl.load(x + row * x_stride + offsets, mask=inside, other=LOWEST)
    value = exponential(value - row_maximum(value))
    tl.store(out + row * out_stride + offsets, value / tl.sum(value, axis=0), mask=inside)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        softmax[(x.shape[0],)](out, x, x.stride(0), out.stride(0), x.shape[1], BLOCK=block, num_warps=4)
        return out


def get_inputs():
    return [torch.randn(1024, 1000)]


def get_init_inputs():
    return []
