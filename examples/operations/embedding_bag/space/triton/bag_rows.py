import triton
import triton.language as tl


# A program for a bag, place by place.
@triton.jit
def bag_rows(table, indices, shares, sums, places, dim, BLOCK: tl.constexpr):
    bag = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < dim
    total = tl.zeros((BLOCK,), tl.float32)
    for place in range(0, places):
        row = tl.load(indices + bag * places + place)
        share = tl.load(shares + bag * places + place)
        value = tl.load(table + row.to(tl.int64) * dim + column, mask=inside & (row >= 0), other=0.0)
        total += value.to(tl.float32) * share
    tl.store(sums + bag * dim + column, total, mask=inside)
