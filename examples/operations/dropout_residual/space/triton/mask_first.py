import triton
import triton.language as tl


@triton.jit
def mixed(bits):
    # murmur3's last step.
    bits ^= bits >> 16
    bits *= 0x85EBCA6B
    bits ^= bits >> 13
    bits *= 0xC2B2AE35
    return bits ^ (bits >> 16)


# The mask first; the sums read it again.
@triton.jit
def masks(seeds, kept, cols, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    seed = tl.load(seeds + at // cols, mask=at < count, other=0)
    keep = mixed(((at % cols).to(tl.int32) ^ seed).to(tl.uint32)) >= 1 << 30
    tl.store(kept + at, keep.to(tl.uint8), mask=at < count)


@triton.jit
def sums(x, residual, kept, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    keep = tl.load(kept + at, mask=inside, other=0) != 0
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    base = tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + at, (base + tl.where(keep, value * (4 / 3), 0.0)).to(tl.bfloat16), mask=inside)
