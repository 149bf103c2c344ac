import triton
import triton.language as tl


# A program for each row, BLOCK entries at a time.
@triton.jit
def row_loops(row_starts, columns, elements, x, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    last = tl.load(row_starts + row + 1)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(tl.load(row_starts + row), last, BLOCK):
        at = start + tl.arange(0, BLOCK)
        column = tl.load(columns + at, mask=at < last, other=0)
        sums += tl.load(elements + at, mask=at < last, other=0.0) * tl.load(x + column, mask=at < last, other=0.0)
    tl.store(y + row, tl.sum(sums, 0))
