import triton
import triton.language as tl


# The row in steps, with a running maximum and sum.
@triton.jit
def softmax(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -1e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        inside = start + offsets < cols
        value = tl.load(x + row * cols + start + offsets, mask=inside, other=-float("inf"))
        bigger = tl.maximum(largest, value)
        total = total * tl.exp(largest - bigger) + tl.exp(value - bigger)
        largest = bigger
    row_largest = tl.max(largest, 0)
    row_total = tl.sum(total * tl.exp(largest - row_largest), 0)
    for start in range(0, cols, BLOCK):
        inside = start + offsets < cols
        value = tl.load(x + row * cols + start + offsets, mask=inside, other=0.0)
        tl.store(y + row * cols + start + offsets, tl.exp(value - row_largest) / row_total, mask=inside)
