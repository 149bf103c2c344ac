"""Scales each group of a token so that its largest value becomes 448, the largest number of float8_e4m3fn."""

import torch
import triton
import triton.language as tl

MAX = tl.constexpr(448.0)
EPSILON = tl.constexpr(1e-10)


@triton.jit
def quantize(x, x_q, x_s, groups, SIZE: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    at = row[:, None].to(tl.int64) * SIZE + column[None, :]
    inside = (row < groups)[:, None] & (column < SIZE)[None, :]
    values = tl.load(x + at, mask=inside, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(values), axis=1), EPSILON) / MAX
    scaled = tl.minimum(tl.maximum(values / scale[:, None], -MAX), MAX)
    tl.store(x_q + at, scaled, mask=inside)
    tl.store(x_s + row, scale, mask=row < groups)


def custom_kernel(data):
    x, x_q, x_s = data
    groups = x_s.numel()
    size = x.numel() // groups
    width = triton.next_power_of_2(size)
    rows = max(1, 2048 // width)
    quantize[(triton.cdiv(groups, rows),)](x, x_q, x_s, groups, SIZE=size, WIDTH=width, ROWS=rows, num_warps=4)
    return x_q, x_s
