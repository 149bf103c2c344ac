import triton
import triton.language as tl


@triton.jit
def argmax(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    at = tl.full((BLOCK,), 2147483647, tl.int32)
    for start in range(0, cols, BLOCK):
        column = start + offsets
        value = tl.load(x + row * cols + column, mask=column < cols, other=-float("inf"))
        better = (value > best) | ((value == best) & (column < at) & (column < cols))
        best = tl.where(better, value, best)
        at = tl.where(better, column, at)
    largest = tl.max(best, 0)
    tl.store(y + row, tl.min(tl.where(best == largest, at, 2147483647), 0))
