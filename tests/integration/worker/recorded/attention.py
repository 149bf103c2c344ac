"""Attention with tl.dot, a softmax that is computed along the way, and a scale that is a real number."""

import torch
import triton
import triton.language as tl


@triton.jit
def attention(q, k, v, out, keys, scale, WIDTH: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, WIDTH)
    query = tl.load(q + rows[:, None] * WIDTH + lanes[None, :])
    largest = tl.full((ROWS,), -1e30, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    result = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in range(0, keys, STEP):
        at = start + tl.arange(0, STEP)
        key = tl.load(k + at[:, None] * WIDTH + lanes[None, :])
        value = tl.load(v + at[:, None] * WIDTH + lanes[None, :])
        scores = tl.dot(query, tl.trans(key)) * scale
        bigger = tl.maximum(largest, tl.max(scores, 1))
        weight = tl.exp(scores - bigger[:, None])
        shrink = tl.exp(largest - bigger)
        total = total * shrink + tl.sum(weight, 1)
        result = tl.dot(weight.to(tl.float16), value, result * shrink[:, None])
        largest = bigger
    tl.store(out + rows[:, None] * WIDTH + lanes[None, :], (result / total[:, None]).to(tl.float16))


class Model(torch.nn.Module):
    def forward(self, q, k, v):
        return torch.softmax((q @ k.T) / 8, dim=-1) @ v


class ModelNew(torch.nn.Module):
    def forward(self, q, k, v):
        out = torch.empty_like(q)
        attention[(q.shape[0] // 64,)](q, k, v, out, k.shape[0], 0.125, WIDTH=64, ROWS=64, STEP=32)
        return out


def get_inputs():
    return [torch.randn(1024, 64, dtype=torch.float16) for _ in range(3)]


def get_init_inputs():
    return []
