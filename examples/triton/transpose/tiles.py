import triton
import triton.language as tl


@triton.jit
def transpose(x, y, rows, cols, TILE: tl.constexpr):
    row = tl.program_id(1) * TILE + tl.arange(0, TILE)
    column = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = (row[:, None] < rows) & (column[None, :] < cols)
    value = tl.load(x + row.to(tl.int64)[:, None] * cols + column[None, :], mask=inside)
    turned = tl.trans(value)
    tl.store(y + column.to(tl.int64)[:, None] * rows + row[None, :], turned, mask=tl.trans(inside))
