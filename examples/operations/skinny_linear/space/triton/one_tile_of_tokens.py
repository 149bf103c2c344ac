import triton
import triton.language as tl


# Mistake: the grid has one tile of 16 tokens; further tokens get no result.
@triton.jit
def one_tile_of_tokens(x, weight, bias, y, tokens, outputs, inputs, N: tl.constexpr, K: tl.constexpr):
    token = tl.arange(0, 16)
    output = tl.program_id(0) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    total = tl.zeros((16, N), tl.float32)
    for start in range(0, inputs, K):
        inside = start + depth < inputs
        value = tl.load(x + token[:, None] * inputs + start + depth[None, :], mask=(token[:, None] < tokens) & inside[None, :], other=0.0)
        rows = tl.load(weight + output[None, :].to(tl.int64) * inputs + start + depth[:, None], mask=(output[None, :] < outputs) & inside[:, None], other=0.0)
        total = tl.dot(value, rows, total)
    total += tl.load(bias + output, mask=output < outputs, other=0.0).to(tl.float32)[None, :]
    tl.store(y + token[:, None] * outputs + output[None, :], total.to(tl.bfloat16), mask=(token[:, None] < tokens) & (output[None, :] < outputs))
