import triton
import triton.language as tl


# SPLITS programs share the positions of a sequence and head. A second launch merges their results.
@triton.jit
def parts(q, keys, values, table, lengths, workspace, heads, pages_each, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    partial = workspace.to(tl.pointer_type(tl.float32))
    head = tl.program_id(0)
    sequence = tl.program_id(1)
    split = tl.program_id(2)
    dim = tl.arange(0, 64)
    query = tl.load(q + (sequence * heads + head) * 64 + dim).to(tl.float32) * 0.125
    length = tl.load(lengths + sequence)
    share = tl.cdiv(length, SPLITS)
    first = split * share
    last = tl.minimum(first + share, length)
    top = -1e30
    total = 0.0
    result = tl.zeros((64,), tl.float32)
    for start in range(first, last, BLOCK):
        position = start + tl.arange(0, BLOCK)
        inside = position < last
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
    # 64 sums, the maximum and the sum of weights.
    to = partial + ((sequence * heads + head) * SPLITS + split) * 66
    tl.store(to + dim, result)
    tl.store(to + 64, top)
    tl.store(to + 65, total)


@triton.jit
def merge(workspace, mixed, SPLITS: tl.constexpr):
    partial = workspace.to(tl.pointer_type(tl.float32))
    split = tl.arange(0, SPLITS)
    dim = tl.arange(0, 64)
    base = partial + tl.program_id(0) * SPLITS * 66
    tops = tl.load(base + split * 66 + 64)
    scale = tl.exp(tops - tl.max(tops, 0))
    total = tl.sum(tl.load(base + split * 66 + 65) * scale, 0)
    sums = tl.load(base + split[:, None] * 66 + dim[None, :])
    tl.store(mixed + tl.program_id(0) * 64 + dim, (tl.sum(sums * scale[:, None], 0) / total).to(tl.bfloat16))
