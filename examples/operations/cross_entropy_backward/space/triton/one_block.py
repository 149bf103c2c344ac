import triton
import triton.language as tl


# A row in one block, read once.
@triton.jit
def one_block(logits, labels, grad, dlogits, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < classes
    value = tl.load(logits + row * classes + column, mask=inside, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    slope = tl.load(grad + row)
    value = value * (slope / tl.sum(value, 0)) - tl.where(column == tl.load(labels + row), slope, 0.0)
    tl.store(dlogits + row * classes + column, value, mask=inside)
