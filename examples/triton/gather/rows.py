import triton
import triton.language as tl


@triton.jit
def gather(table, index, out, n, dim, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    source = tl.load(index + row, mask=row < n, other=0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = (row[:, None] < n) & (column[None, :] < dim)
    value = tl.load(table + source[:, None] * dim + column[None, :], mask=inside)
    tl.store(out + row.to(tl.int64)[:, None] * dim + column[None, :], value, mask=inside)
