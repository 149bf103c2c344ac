import triton
import triton.language as tl


@triton.jit
def clear(y, bins, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.zeros((BLOCK,), tl.int32), mask=at < bins)


@triton.jit
def count(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside, other=0)
    tl.atomic_add(y + value, 1, mask=inside, sem="relaxed")
