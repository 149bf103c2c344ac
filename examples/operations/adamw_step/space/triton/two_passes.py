import triton
import triton.language as tl


# The moments first; the parameters read them again.
@triton.jit
def moments(grad, mean, square, new_mean, new_square, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
    m = tl.load(mean + at, mask=inside, other=0.0)
    s = tl.load(square + at, mask=inside, other=0.0)
    tl.store(new_mean + at, 0.9 * m + 0.1 * g, mask=inside)
    tl.store(new_square + at, 0.999 * s + 0.001 * g * g, mask=inside)


@triton.jit
def parameters(param, new_mean, new_square, new_param, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    p = tl.load(param + at, mask=inside, other=0.0)
    m = tl.load(new_mean + at, mask=inside, other=0.0)
    # 1 / sqrt(1 - 0.999^100) and 1 - 0.9^100.
    root = tl.sqrt(tl.load(new_square + at, mask=inside, other=0.0)) * 3.2408850 + 1e-8
    tl.store(new_param + at, p * (1 - 1e-3) - 1e-2 / 0.99997344 * m / root, mask=inside)
