import triton
import triton.language as tl


# Some bags, and PLACES of their rows at a time, which are summed as a block.
@triton.jit
def bag_tiles(table, indices, shares, sums, bags, places, dim, BAGS: tl.constexpr, PLACES: tl.constexpr, BLOCK: tl.constexpr):
    bag = tl.program_id(0) * BAGS + tl.arange(0, BAGS)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BAGS, BLOCK), tl.float32)
    for start in range(0, places, PLACES):
        place = start + tl.arange(0, PLACES)[None, :]
        known = (bag[:, None] < bags) & (place < places)
        row = tl.load(indices + bag[:, None] * places + place, mask=known, other=-1)
        share = tl.load(shares + bag[:, None] * places + place, mask=known, other=0.0)
        used = (row >= 0)[:, :, None] & (column < dim)[None, None, :]
        value = tl.load(table + row.to(tl.int64)[:, :, None] * dim + column[None, None, :], mask=used, other=0.0)
        total += tl.sum(value.to(tl.float32) * share[:, :, None], 1)
    to = bag[:, None].to(tl.int64) * dim + column[None, :]
    tl.store(sums + to, total, mask=(bag[:, None] < bags) & (column[None, :] < dim))
