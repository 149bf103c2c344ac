import triton
import triton.language as tl


# A result for each element, which also loads its partner in the other half: twice the loads, one store.
@triton.jit
def elements(q, cosines, sines, rotated, heads, half, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    column = at % (2 * half)
    is_first = column < half
    pair = tl.where(is_first, column, column - half)
    angle = at // (2 * half) // heads * half + pair
    own = tl.load(q + at, mask=inside, other=0.0).to(tl.float32)
    other = tl.load(q + tl.where(is_first, at + half, at - half), mask=inside, other=0.0).to(tl.float32)
    c = tl.load(cosines + angle, mask=inside, other=0.0)
    s = tl.load(sines + angle, mask=inside, other=0.0)
    result = own * c + tl.where(is_first, -other, other) * s
    tl.store(rotated + at, result.to(tl.bfloat16), mask=inside)
