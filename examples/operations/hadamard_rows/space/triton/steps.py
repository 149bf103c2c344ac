import triton
import triton.language as tl


# Rows in registers. A step views the row as pairs of halves of STEP values.
@triton.jit
def steps(x, y, rows, ROWS: tl.constexpr, COLS: tl.constexpr, POWER: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    at = row.to(tl.int64) * COLS + tl.arange(0, COLS)[None, :]
    value = tl.load(x + at, mask=row < rows, other=0.0)
    for k in tl.static_range(POWER):
        pairs = tl.reshape(value, (ROWS * COLS // (2 << k), 2, 1 << k))
        first, second = tl.split(tl.permute(pairs, (0, 2, 1)))
        joined = tl.join(first + second, first - second)
        value = tl.reshape(tl.permute(joined, (0, 2, 1)), (ROWS, COLS))
    tl.store(y + at, value * (1.0 / tl.sqrt(COLS * 1.0)), mask=row < rows)
