"""Multiplies the matrix of a chunk with its scaled keys and values. One program makes some columns of one chunk."""

import torch
import triton
import triton.language as tl


@triton.jit
def scaled_product(matrix, source, target, base, row, heads, width, factor, column, BLOCK: tl.constexpr):
    """Writes columns of matrix @ (source * factor)."""
    at = (base + row * heads)[:, None] * width + (column * BLOCK + tl.arange(0, BLOCK))[None, :]
    scaled = tl.load(source + at) * factor[:, None]
    tl.store(target + at, tl.dot(matrix, scaled, input_precision="tf32x3"))


@triton.jit
def recompute(k, v, beta, a, g, w, u, steps, heads, K: tl.constexpr, V: tl.constexpr, CHUNK: tl.constexpr,
              BLOCK: tl.constexpr):
    chunk, column = tl.program_id(0), tl.program_id(2)
    batch, head = tl.program_id(1) // heads, tl.program_id(1) % heads
    row = tl.arange(0, CHUNK)
    # The place of the chunk's first step of this head, counted in vectors.
    base = (batch * steps + chunk * CHUNK) * heads + head
    vector = base + row * heads
    matrix = tl.load(a + vector[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :])
    factor = tl.load(beta + vector)
    if column < K // BLOCK:
        factor *= tl.exp(tl.load(g + vector))
        scaled_product(matrix, k, w, base, row, heads, K, factor, column, BLOCK)
    else:
        scaled_product(matrix, v, u, base, row, heads, V, factor, column - K // BLOCK, BLOCK)


def custom_kernel(data):
    k, v, beta, a, g = data
    batches, steps, heads, key_size = k.shape
    value_size, chunk = v.shape[-1], a.shape[-1]
    block = 32
    w, u = torch.empty_like(k), torch.empty_like(v)
    grid = (steps // chunk, batches * heads, (key_size + value_size) // block)
    recompute[grid](k, v, beta, a, g, w, u, steps, heads, K=key_size, V=value_size, CHUNK=chunk, BLOCK=block, num_warps=4)
    return w, u
