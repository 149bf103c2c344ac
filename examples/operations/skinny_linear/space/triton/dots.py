import triton
import triton.language as tl


# Tiles of the weight on the tensor cores, with the tokens padded to 16 at least.
@triton.jit
def dots(x, weight, bias, y, tokens, outputs, inputs, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    token = tl.program_id(1) * M + tl.arange(0, M)
    output = tl.program_id(0) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, inputs, K):
        inside = start + depth < inputs
        value = tl.load(x + token[:, None] * inputs + start + depth[None, :], mask=(token[:, None] < tokens) & inside[None, :], other=0.0)
        rows = tl.load(weight + output[None, :].to(tl.int64) * inputs + start + depth[:, None], mask=(output[None, :] < outputs) & inside[:, None], other=0.0)
        total = tl.dot(value, rows, total)
    total += tl.load(bias + output, mask=output < outputs, other=0.0).to(tl.float32)[None, :]
    tl.store(y + token[:, None] * outputs + output[None, :], total.to(tl.bfloat16), mask=(token[:, None] < tokens) & (output[None, :] < outputs))
