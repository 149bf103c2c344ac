import triton
import triton.language as tl


# A program for each sequence and head goes over BLOCK positions at a time with a running maximum.
@triton.jit
def blocks(q, keys, values, table, lengths, mixed, heads, pages_each, BLOCK: tl.constexpr):
    head = tl.program_id(0)
    sequence = tl.program_id(1)
    dim = tl.arange(0, 64)
    own = (sequence * heads + head) * 64 + dim
    query = tl.load(q + own).to(tl.float32) * 0.125
    length = tl.load(lengths + sequence)
    top = -1e30
    total = 0.0
    result = tl.zeros((64,), tl.float32)
    for start in range(0, length, BLOCK):
        position = start + tl.arange(0, BLOCK)
        inside = position < length
        page = tl.load(table + sequence * pages_each + position // 16, mask=inside, other=0).to(tl.int64)
        at = ((page * 16 + position % 16) * heads + head)[:, None] * 64 + dim[None, :]
        key = tl.load(keys + at, mask=inside[:, None], other=0.0).to(tl.float32)
        score = tl.where(inside, tl.sum(key * query[None, :], 1), -1e30)
        next_top = tl.maximum(top, tl.max(score, 0))
        weight = tl.where(inside, tl.exp(score - next_top), 0.0)
        old = tl.exp(top - next_top)
        total = total * old + tl.sum(weight, 0)
        value = tl.load(values + at, mask=inside[:, None], other=0.0).to(tl.float32)
        result = result * old + tl.sum(value * weight[:, None], 0)
        top = next_top
    tl.store(mixed + own, (result / total).to(tl.bfloat16))
