import triton
import triton.language as tl


@triton.jit
def rmsnorm(x, weight, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        value = tl.load(x + row * cols + start + offsets, mask=start + offsets < cols, other=0.0)
        squares += value * value
    scale = tl.rsqrt(tl.sum(squares, 0) / cols + 1e-6)
    for start in range(0, cols, BLOCK):
        inside = start + offsets < cols
        value = tl.load(x + row * cols + start + offsets, mask=inside, other=0.0)
        gain = tl.load(weight + start + offsets, mask=inside, other=0.0)
        tl.store(y + row * cols + start + offsets, value * scale * gain, mask=inside)
