import triton
import triton.language as tl


# A row in blocks, twice: for the mean of the products, and for the gradient.
@triton.jit
def row_gradients(x, weight, inverse, grad, dx, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    scale = tl.load(inverse + row)
    products = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        inside = start + offsets < cols
        value = tl.load(x + row * cols + start + offsets, mask=inside, other=0.0)
        scaled = tl.load(grad + row * cols + start + offsets, mask=inside, other=0.0)
        scaled *= tl.load(weight + start + offsets, mask=inside, other=0.0)
        products += scaled * value
    along = tl.sum(products, 0) * scale * scale / cols
    for start in range(0, cols, BLOCK):
        inside = start + offsets < cols
        value = tl.load(x + row * cols + start + offsets, mask=inside, other=0.0)
        scaled = tl.load(grad + row * cols + start + offsets, mask=inside, other=0.0)
        scaled *= tl.load(weight + start + offsets, mask=inside, other=0.0)
        tl.store(dx + row * cols + start + offsets, (scaled - value * along) * scale, mask=inside)


# The products of `share` rows, summed for COLUMNS columns.
@triton.jit
def column_parts(x, inverse, grad, workspace, rows, cols, share, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    parts = workspace.to(tl.pointer_type(tl.float32))
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    first = tl.program_id(1) * share
    last = tl.minimum(first + share, rows)
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        inside = (row < last) & (column < cols)
        at = row.to(tl.int64) * cols + column
        value = tl.load(x + at, mask=inside, other=0.0) * tl.load(inverse + row, mask=row < last, other=0.0)
        sums += value * tl.load(grad + at, mask=inside, other=0.0)
    total = tl.sum(sums, 0)
    to = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(parts + tl.program_id(1) * cols + to, total, mask=to < cols)


@triton.jit
def column_sums(workspace, dweight, cols, SPLITS: tl.constexpr, COLUMNS: tl.constexpr):
    parts = workspace.to(tl.pointer_type(tl.float32))
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    split = tl.arange(0, SPLITS)[:, None]
    value = tl.load(parts + split * cols + column[None, :], mask=column[None, :] < cols, other=0.0)
    tl.store(dweight + column, tl.sum(value, 0), mask=column < cols)
