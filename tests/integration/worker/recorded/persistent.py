"""As many blocks as the GPU has multiprocessors, and a kernel made by a function."""

import math

import torch
import triton
import triton.language as tl


def make_kernel(factor):
    scale = tl.constexpr(factor)

    @triton.jit
    def scaled(x, out, n, blocks, BLOCK: tl.constexpr):
        for start in range(tl.program_id(0) * BLOCK, n, blocks * BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(out + at, tl.load(x + at, mask=at < n) * scale, mask=at < n)

    return scaled


kernel = make_kernel(1 / math.sqrt(2))


class Model(torch.nn.Module):
    def forward(self, x):
        return x / math.sqrt(2)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        blocks = torch.cuda.get_device_properties(x.device).multi_processor_count
        with torch.cuda.device(x.device):
            kernel[(blocks, 1, 1)](x, out, x.numel(), blocks, BLOCK=2048)
        return out


def get_inputs():
    return [torch.randn(4096, 1024)]


def get_init_inputs():
    return []
