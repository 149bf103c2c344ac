"""Weights of the module, and a bias that is absent."""

import torch
import triton
import triton.language as tl


@triton.jit
def layernorm(x, weight, bias, out, columns, eps, BLOCK: tl.constexpr, HAS_BIAS: tl.constexpr = False):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    value = tl.load(x + row * columns + offsets, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(value, axis=0) / columns
    centred = tl.where(inside, value - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    result = centred * scale * tl.load(weight + offsets, mask=inside)
    if bias is not None:
        result += tl.load(bias + offsets, mask=inside)
    tl.store(out + row * columns + offsets, result, mask=inside)


class Model(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(columns))

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[1:], self.weight)


class ModelNew(Model):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        layernorm[(rows,)](x, self.weight, None, out, columns, 1e-5, BLOCK=triton.next_power_of_2(columns))
        return out


def get_inputs():
    return [torch.randn(2048, 768)]


def get_init_inputs():
    return [768]
