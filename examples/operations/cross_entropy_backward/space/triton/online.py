import triton
import triton.language as tl


# A row in blocks, read twice, with a running largest logit and sum for each place in the block.
@triton.jit
def online(logits, labels, grad, dlogits, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -3.4e38, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, BLOCK):
        inside = start + offsets < classes
        value = tl.load(logits + row * classes + start + offsets, mask=inside, other=-float("inf"))
        bigger = tl.maximum(largest, value)
        total = total * tl.exp(largest - bigger) + tl.exp(value - bigger)
        largest = bigger
    top = tl.max(largest, 0)
    slope = tl.load(grad + row)
    scale = slope / tl.sum(total * tl.exp(largest - top), 0)
    label = tl.load(labels + row)
    for start in range(0, classes, BLOCK):
        inside = start + offsets < classes
        value = tl.load(logits + row * classes + start + offsets, mask=inside, other=0.0)
        value = tl.exp(value - top) * scale - tl.where(start + offsets == label, slope, 0.0)
        tl.store(dlogits + row * classes + start + offsets, value, mask=inside)
