import triton
import triton.language as tl


@triton.jit
def parts(x, workspace, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    partial = workspace.to(tl.pointer_type(tl.float32))
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(1) * ROWS
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(0, ROWS, 16):
        row = first + step + tl.arange(0, 16)
        inside = (row[:, None] < rows) & (column[None, :] < cols)
        value = tl.load(x + row.to(tl.int64)[:, None] * cols + column[None, :], mask=inside, other=0.0)
        total += tl.sum(value, 0)
    tl.store(partial + tl.program_id(1) * cols + column, total, mask=column < cols)


@triton.jit
def totals(workspace, y, count, cols, BLOCK: tl.constexpr):
    partial = workspace.to(tl.pointer_type(tl.float32))
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float64)
    for part in range(count):
        total += tl.load(partial + part * cols + column, mask=column < cols, other=0.0).to(tl.float64)
    tl.store(y + column, total.to(tl.float32), mask=column < cols)
