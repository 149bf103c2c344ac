import triton
import triton.language as tl


# Mistake: all rows of a program go on as long as its first one does.
@triton.jit
def first_row_ends(row_starts, columns, elements, x, y, rows, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    first = tl.load(row_starts + row, mask=row < rows, other=0)
    last = tl.load(row_starts + row + 1, mask=row < rows, other=0)
    length = tl.load(row_starts + tl.program_id(0) * ROWS + 1) - tl.load(row_starts + tl.program_id(0) * ROWS)
    sums = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in range(0, length, WIDTH):
        at = first[:, None] + start + tl.arange(0, WIDTH)[None, :]
        inside = at < last[:, None]
        column = tl.load(columns + at, mask=inside, other=0)
        sums += tl.load(elements + at, mask=inside, other=0.0) * tl.load(x + column, mask=inside, other=0.0)
    tl.store(y + row, tl.sum(sums, 1), mask=row < rows)
