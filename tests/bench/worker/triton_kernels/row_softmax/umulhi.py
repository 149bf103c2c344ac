import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + at, mask=inside, other=1.0)
    i = at.to(tl.uint32)
    v = v + tl.umulhi(i, i + 0x9E3779B9).to(tl.float32)
    tl.store(y + at, v, mask=inside)
