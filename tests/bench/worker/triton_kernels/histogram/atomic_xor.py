import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, bins, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside, other=0)
    tl.atomic_xor(y + value % bins, value, mask=inside)
