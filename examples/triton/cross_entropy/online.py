import triton
import triton.language as tl


@triton.jit
def cross_entropy(logits, labels, loss, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -1e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, classes, BLOCK, num_stages=3):
        inside = start + offsets < classes
        value = tl.load(logits + row * classes + start + offsets, mask=inside, other=-float("inf"))
        bigger = tl.maximum(largest, value)
        total = total * tl.exp(largest - bigger) + tl.exp(value - bigger)
        largest = bigger
    row_largest = tl.max(largest, 0)
    row_total = tl.sum(total * tl.exp(largest - row_largest), 0)
    chosen = tl.load(logits + row * classes + tl.load(labels + row))
    tl.store(loss + row, tl.log(row_total) + row_largest - chosen)
