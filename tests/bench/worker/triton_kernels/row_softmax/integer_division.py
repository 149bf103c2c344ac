import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + at, mask=inside, other=1.0)
    i = at.to(tl.int32)
    v = v + (i // 7).to(tl.float32) + (i % 13).to(tl.float32)
    tl.store(y + at, v, mask=inside)
