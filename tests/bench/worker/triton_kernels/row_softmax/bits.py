import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + at, mask=inside, other=1.0)
    b = v.to(tl.int32, bitcast=True)
    b = (b ^ (b >> 7)) & 0x7FFFFF | 0x3F800000
    v = b.to(tl.float32, bitcast=True)
    tl.store(y + at, v, mask=inside)
