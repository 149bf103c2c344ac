import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.heuristics({"W": lambda given: triton.next_power_of_2(given["n"])})
@triton.jit
def chain(x, y, out, n, W: tl.constexpr):
    row = tl.program_id(0)
    at = row * n + tl.arange(0, W)
    live = tl.arange(0, W) < n
    a = tl.load(x + at, mask=live, other=0.0)
    b = tl.load(y + at, mask=live, other=0.0)
    mean = tl.sum(a) / n
    v = a * 1.5 + b
    t = 2 / (1 + tl.exp(-2 * v)) - 1
    tl.store(out + at, t / (1 + tl.exp(-b)) + mean, mask=live)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        chain[(x.shape[0],)](x, y, out, x.shape[1])
        return out
