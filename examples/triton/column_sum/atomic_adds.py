import triton
import triton.language as tl


@triton.jit
def clear(workspace, cols, BLOCK: tl.constexpr):
    sums = workspace.to(tl.pointer_type(tl.float64))
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(sums + column, tl.zeros((BLOCK,), tl.float64), mask=column < cols)


@triton.jit
def add(x, workspace, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    sums = workspace.to(tl.pointer_type(tl.float64))
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(1) * ROWS
    total = tl.zeros((BLOCK,), tl.float64)
    for step in range(ROWS):
        row = (first + step).to(tl.int64)
        value = tl.load(x + row * cols + column, mask=(row < rows) & (column < cols), other=0.0)
        total += value.to(tl.float64)
    tl.atomic_add(sums + column, total, mask=column < cols)


@triton.jit
def finish(workspace, y, cols, BLOCK: tl.constexpr):
    sums = workspace.to(tl.pointer_type(tl.float64))
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + column, tl.load(sums + column, mask=column < cols).to(tl.float32), mask=column < cols)
