import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + at, mask=inside, other=1.0)
    v = tl.minimum(tl.maximum(v * 255.0, 0.0), 255.0).to(tl.uint8).to(tl.float32)
    tl.store(y + at, v, mask=inside)
