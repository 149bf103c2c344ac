import triton
import triton.language as tl


# Mistake: only as many tiles of heads as fit, so that the last heads are missing where HEADS does not
# divide their number.
@triton.jit
def whole_tiles(q, cosines, sines, rotated, heads, half, HEADS: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    pair = tl.arange(0, BLOCK)[None, :]
    c = tl.load(cosines + token * half + pair, mask=pair < half, other=0.0)
    s = tl.load(sines + token * half + pair, mask=pair < half, other=0.0)
    for tile in range(0, heads // HEADS):
        head = tile * HEADS + tl.arange(0, HEADS)[:, None]
        at = (token * heads + head) * 2 * half + pair
        inside = (head < heads) & (pair < half)
        a = tl.load(q + at, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(q + at + half, mask=inside, other=0.0).to(tl.float32)
        tl.store(rotated + at, (a * c - b * s).to(tl.bfloat16), mask=inside)
        tl.store(rotated + at + half, (b * c + a * s).to(tl.bfloat16), mask=inside)
