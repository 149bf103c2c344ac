"""Makes some columns of a chunk's output at once: what the state and the steps of the same chunk contribute."""

import torch
import triton
import triton.language as tl

CHUNK = 64


@triton.jit
def outputs(q, k, v, h, g, o, steps, heads, scale, K: tl.constexpr, V: tl.constexpr, CHUNK: tl.constexpr,
            BLOCK: tl.constexpr):
    chunk = tl.program_id(0)
    batch, head = tl.program_id(1) // heads, tl.program_id(1) % heads
    column = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    row, key = tl.arange(0, CHUNK), tl.arange(0, K)
    vector = (batch * steps + chunk * CHUNK + row) * heads + head
    queries = tl.load(q + vector[:, None] * K + key[None, :])
    keys = tl.load(k + vector[None, :] * K + key[:, None])
    values = tl.load(v + vector[:, None] * V + column[None, :])
    gates = tl.load(g + vector)
    at = ((batch * (steps // CHUNK) + chunk) * heads + head) * K * V
    state = tl.load(h + at + key[:, None] * V + column[None, :])
    from_state = tl.dot(queries, state, input_precision="tf32x3") * tl.exp(gates)[:, None]
    causal = row[:, None] >= row[None, :]
    # Above the diagonal the exponent is positive and may be too large.
    decay = tl.exp(tl.where(causal, gates[:, None] - gates[None, :], 0.0))
    scores = tl.dot(queries, keys, input_precision="tf32x3")
    scores = tl.where(causal, scores * decay, 0.0)
    from_chunk = tl.dot(scores, values, input_precision="tf32x3")
    tl.store(o + vector[:, None] * V + column[None, :], (from_state + from_chunk) * scale)


def custom_kernel(data):
    q, k, v, h, g = data
    batches, steps, heads, key_size = q.shape
    value_size = v.shape[-1]
    block = 32
    o = torch.empty(batches, steps, heads, value_size, dtype=q.dtype, device=q.device)
    grid = (steps // CHUNK, batches * heads, value_size // block)
    outputs[grid](q, k, v, h, g, o, steps, heads, key_size**-0.5, K=key_size, V=value_size, CHUNK=CHUNK, BLOCK=block,
                  num_warps=4)
    return o
