import triton
import triton.language as tl


# Mistake: the launch has n / BLOCK programs, rounded down to at least one, so that the last part of a
# block is missing.
@triton.jit
def short_grid(param, grad, mean, square, new_param, new_mean, new_square, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
    m = 0.9 * tl.load(mean + at, mask=inside, other=0.0) + 0.1 * g
    s = 0.999 * tl.load(square + at, mask=inside, other=0.0) + 0.001 * g * g
    p = tl.load(param + at, mask=inside, other=0.0)
    root = tl.sqrt(s) * 3.2408850 + 1e-8
    tl.store(new_param + at, p * (1 - 1e-3) - 1e-2 / 0.99997344 * m / root, mask=inside)
    tl.store(new_mean + at, m, mask=inside)
    tl.store(new_square + at, s, mask=inside)
