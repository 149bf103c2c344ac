"""TriMul in four steps: normalise, project and gate, multiply the channels' matrices, normalise again and project.

Products take float16 and add in float32. What float16 keeps is scaled: normalised values, and sums over n positions
divided by n.
"""

import torch
import triton
import triton.language as tl

EPSILON = 1e-5  # of torch.nn.LayerNorm


@triton.jit
def normalise(x, weight, bias, out, rows, dim, epsilon, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    at = row[:, None].to(tl.int64) * dim + column[None, :]
    live = (column < dim)[None, :]
    inside = (row < rows)[:, None] & live
    values = tl.load(x + at, mask=inside, other=0.0)
    mean = tl.sum(values, axis=1) / dim
    centred = tl.where(live, values - mean[:, None], 0.0)
    factor = tl.rsqrt(tl.sum(centred * centred, axis=1) / dim + epsilon)
    scale = tl.load(weight + column, mask=column < dim, other=0.0)
    shift = tl.load(bias + column, mask=column < dim, other=0.0)
    result = centred * factor[:, None] * scale[None, :] + shift[None, :]
    tl.store(out + at, result.to(tl.float16), mask=inside)


@triton.jit
def project(x, weights, mask, left, right, gate, positions, dim, scale, HIDDEN: tl.constexpr, BLOCK: tl.constexpr,
            STEP: tl.constexpr):
    """Of some positions of one item: left or right, channel by channel, or the gate of the output."""
    kind, item = tl.program_id(0), tl.program_id(2).to(tl.int64)
    position = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    channel, step = tl.arange(0, HIDDEN), tl.arange(0, STEP)
    live = position < positions
    x_at = x + (item * positions + position)[:, None] * dim + step[None, :]
    weight_at = weights + (kind * 2 * HIDDEN + channel)[None, :] * dim + step[:, None]
    value = tl.zeros((BLOCK, HIDDEN), dtype=tl.float32)
    if kind == 2:
        for start in range(0, dim, STEP):
            tile = tl.load(x_at + start, mask=live[:, None], other=0.0)
            value = tl.dot(tile, tl.load(weight_at + start), value)
        at = (item * positions + position)[:, None] * HIDDEN + channel[None, :]
        tl.store(gate + at, tl.sigmoid(value).to(tl.float16), mask=live[:, None])
    else:
        opening = tl.zeros((BLOCK, HIDDEN), dtype=tl.float32)
        for start in range(0, dim, STEP):
            tile = tl.load(x_at + start, mask=live[:, None], other=0.0)
            value = tl.dot(tile, tl.load(weight_at + start), value)
            opening = tl.dot(tile, tl.load(weight_at + HIDDEN * dim + start), opening)
        kept = tl.load(mask + item * positions + position, mask=live, other=0).to(tl.float32) * scale
        result = (value * tl.sigmoid(opening) * kept[:, None]).to(tl.float16)
        at = (item * HIDDEN + channel)[None, :] * positions + position[:, None]
        if kind == 0:
            tl.store(left + at, result, mask=live[:, None])
        else:
            tl.store(right + at, result, mask=live[:, None])


@triton.jit
def finish(sums, weight, bias, gate, to_out, out, positions, dim, epsilon, HIDDEN: tl.constexpr, BLOCK: tl.constexpr,
           STEP: tl.constexpr):
    item = tl.program_id(1).to(tl.int64)
    position = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel, column = tl.arange(0, HIDDEN), tl.arange(0, STEP)
    live = (position < positions)[:, None]
    values = tl.load(sums + (item * HIDDEN + channel)[None, :] * positions + position[:, None], mask=live, other=0.0)
    values = values.to(tl.float32)
    centred = values - (tl.sum(values, axis=1) / HIDDEN)[:, None]
    factor = tl.rsqrt(tl.sum(centred * centred, axis=1) / HIDDEN + epsilon)
    normal = centred * factor[:, None] * tl.load(weight + channel)[None, :] + tl.load(bias + channel)[None, :]
    row = item * positions + position
    open_by = tl.load(gate + row[:, None] * HIDDEN + channel[None, :], mask=live, other=0.0)
    gated = (normal * open_by.to(tl.float32)).to(tl.float16)
    for start in range(0, dim, STEP):
        inside = start + column < dim
        matrix = tl.load(to_out + (start + column)[None, :] * HIDDEN + channel[:, None], mask=inside[None, :], other=0.0)
        result = tl.dot(gated, matrix)
        tl.store(out + row[:, None] * dim + (start + column)[None, :], result, mask=live & inside[None, :])


def custom_kernel(data):
    x, mask, weights, config = data
    dim, hidden = config["dim"], config["hidden_dim"]
    items, n = x.shape[0], x.shape[1]
    positions = n * n
    half = {"dtype": torch.float16, "device": x.device}
    x, mask = x.contiguous(), mask.to(torch.float16).contiguous()
    parts = ("left_proj", "left_gate", "right_proj", "right_gate", "out_gate")
    projections = torch.cat([weights[f"{part}.weight"] for part in parts]).half()
    to_out = weights["to_out.weight"].half()

    normal = torch.empty(items * positions, dim, **half)
    width = triton.next_power_of_2(dim)
    rows = max(1, 4096 // width)
    normalise[(triton.cdiv(items * positions, rows),)](
        x, weights["norm.weight"], weights["norm.bias"], normal, items * positions, dim, EPSILON, WIDTH=width,
        ROWS=rows, num_warps=8)

    left = torch.empty(items * hidden, n, n, **half)
    right = torch.empty_like(left)
    gate = torch.empty(items * positions, hidden, **half)
    project[(3, triton.cdiv(positions, 128), items)](
        normal, projections, mask, left, right, gate, positions, dim, n**-0.5, HIDDEN=hidden, BLOCK=128, STEP=64,
        num_warps=8, num_stages=3)

    sums = torch.bmm(left, right.transpose(1, 2))  # divided by n

    out = torch.empty_like(x)
    finish[(triton.cdiv(positions, 64), items)](
        sums, weights["to_out_norm.weight"], weights["to_out_norm.bias"], gate, to_out, out, positions,
        dim, EPSILON / (n * n), HIDDEN=hidden, BLOCK=64, STEP=64, num_warps=4, num_stages=2)
    return out
