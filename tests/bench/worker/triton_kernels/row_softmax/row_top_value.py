import triton
import triton.language as tl


@triton.jit
def kernel(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    v = tl.load(x + row * cols + at, mask=inside, other=0.0)
    v = tl.where(v >= tl.max(v, 0), 1.0, 0.0)
    tl.store(y + row * cols + at, v, mask=inside)
