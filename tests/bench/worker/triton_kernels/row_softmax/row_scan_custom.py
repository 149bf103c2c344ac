import triton
import triton.language as tl


@triton.jit
def combine(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def kernel(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + at, mask=at < cols, other=0.0)
    _, v = tl.associative_scan((tl.full((BLOCK,), 0.9, tl.float32), v), 0, combine)
    tl.store(y + row * cols + at, v, mask=at < cols)
