import triton
import triton.language as tl


# Mistake: the product is in tf32, which keeps ten bits of each value.
@triton.jit
def tf32_matrix(x, y, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLS + tl.arange(0, COLS)
    total = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, cols, DEPTH):
        depth = start + tl.arange(0, DEPTH)
        value = tl.load(x + row.to(tl.int64) * cols + depth[None, :], mask=(row < rows) & (depth[None, :] < cols), other=0.0)
        ones = depth[:, None] & column[None, :]
        ones ^= ones >> 8
        ones ^= ones >> 4
        ones ^= ones >> 2
        ones ^= ones >> 1
        sign = 1.0 - 2.0 * (ones & 1).to(tl.float32)
        total = tl.dot(value, sign, total, input_precision="tf32")
    at = row.to(tl.int64) * cols + column[None, :]
    tl.store(y + at, total * (1.0 / tl.sqrt(cols * 1.0)), mask=(row < rows) & (column[None, :] < cols))
