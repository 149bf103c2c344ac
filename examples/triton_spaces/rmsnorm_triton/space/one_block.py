import triton
import triton.language as tl


@triton.jit
def rmsnorm(x, weight, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < cols
    value = tl.load(x + row * cols + offsets, mask=inside, other=0.0)
    scale = 1 / tl.sqrt(tl.sum(value * value, 0) / cols + 1e-6)
    gain = tl.load(weight + offsets, mask=inside, other=0.0)
    tl.store(y + row * cols + offsets, value * scale * gain, mask=inside)
