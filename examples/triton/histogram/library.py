import triton
import triton.language as tl


@triton.jit
def clear(y, bins, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.zeros((BLOCK,), tl.int32), mask=at < bins)


# Each program counts its part in registers and adds the counts once.
@triton.jit
def count(x, y, n, bins, part, BLOCK: tl.constexpr, BINS: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * part
    bin = tl.arange(0, BINS)
    counts = tl.zeros((BINS,), tl.int32)
    for start in range(0, part, BLOCK):
        at = first + start + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=(at < n) & (at < first + part), other=BINS - 1)
        counts += tl.histogram(value, BINS)
        padding = tl.sum(((at >= n) | (at >= first + part)).to(tl.int32), 0)
        counts -= tl.where(bin == BINS - 1, padding, 0)
    tl.atomic_add(y + bin, counts, mask=bin < bins, sem="relaxed")
