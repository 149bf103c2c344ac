import triton
import triton.language as tl


# Mistake: a row is taken to have BLOCK elements, a power of two, wherever an address is computed from its
# number.
@triton.jit
def wide_rows(table, indices, shares, sums, rows, places, dim, BLOCK: tl.constexpr):
    bag = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < dim
    total = tl.zeros((BLOCK,), tl.float32)
    for place in range(0, places):
        row = tl.load(indices + bag * places + place)
        share = tl.load(shares + bag * places + place)
        at = row.to(tl.int64) * BLOCK + column
        value = tl.load(table + at, mask=inside & (row >= 0) & (at < rows * dim), other=0.0)
        total += value.to(tl.float32) * share
    tl.store(sums + bag * dim + column, total, mask=inside)
