"""relu(x W^T + b), one block of outputs per program."""

import triton
import triton.language as tl


@triton.jit
def linear_relu(x, weight, bias, y, rows, inputs, outputs, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = (tl.program_id(0) * M + tl.arange(0, M))[:, None]
    column = (tl.program_id(1) * N + tl.arange(0, N))[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, inputs, K):
        k = start + tl.arange(0, K)
        across, down = k[None, :], k[:, None]
        a = tl.load(x + row * inputs + across, mask=(row < rows) & (across < inputs), other=0.0)
        b = tl.load(weight + column * inputs + down, mask=(column < outputs) & (down < inputs), other=0.0)
        # The reference computes in float32.
        total += tl.dot(a, b, input_precision="ieee")
    total += tl.load(bias + column, mask=column < outputs, other=0.0)
    inside = (row < rows) & (column < outputs)
    tl.store(y + row * outputs + column, tl.maximum(total, 0.0), mask=inside)
