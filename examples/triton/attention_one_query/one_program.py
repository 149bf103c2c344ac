import triton
import triton.language as tl


# One program per head; the keys in steps, with a running maximum.
@triton.jit
def attention(q, k, v, out, length, dim, factor, STEP: tl.constexpr, DIM: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, DIM)
    query = tl.load(q + head * dim + column, mask=column < dim, other=0.0) * factor
    largest = tl.full((), -float("inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    result = tl.zeros((DIM,), tl.float32)
    for start in range(0, length, STEP):
        row = start + tl.arange(0, STEP)
        inside = (row[:, None] < length) & (column[None, :] < dim)
        at = (head * length + row[:, None]) * dim + column[None, :]
        score = tl.sum(query[None, :] * tl.load(k + at, mask=inside, other=0.0), 1)
        score = tl.where(row < length, score, -float("inf"))
        bigger = tl.maximum(largest, tl.max(score, 0))
        weight = tl.exp(score - bigger)
        shrink = tl.exp(largest - bigger)
        result = result * shrink + tl.sum(weight[:, None] * tl.load(v + at, mask=inside, other=0.0), 0)
        total = total * shrink + tl.sum(weight, 0)
        largest = bigger
    tl.store(out + head * dim + column, result / total, mask=column < dim)
