import triton
import triton.language as tl


# Some heads of a token: both halves are loaded once, and the angles once for all these heads.
@triton.jit
def head_tiles(q, cosines, sines, rotated, heads, half, HEADS: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    pair = tl.arange(0, BLOCK)[None, :]
    inside = (head < heads) & (pair < half)
    c = tl.load(cosines + token * half + pair, mask=pair < half, other=0.0)
    s = tl.load(sines + token * half + pair, mask=pair < half, other=0.0)
    at = (token * heads + head) * 2 * half + pair
    a = tl.load(q + at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(q + at + half, mask=inside, other=0.0).to(tl.float32)
    tl.store(rotated + at, (a * c - b * s).to(tl.bfloat16), mask=inside)
    tl.store(rotated + at + half, (b * c + a * s).to(tl.bfloat16), mask=inside)
