import triton
import triton.language as tl


# Mistake: only rows are masked, so that the columns past the end of a row overwrite the next one.
@triton.jit
def unmasked_columns(x, bias, y, rows, cols, M: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    column = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    # The last element of the matrix is the last one that is touched.
    at = row.to(tl.int64) * cols + column
    inside = (row < rows) & (at < rows * cols)
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(bias + column, mask=column < cols, other=0.0).to(tl.float32)
    value = 0.5 * value * (1 + tl.math.erf(value * 0.70710678))
    tl.store(y + at, value.to(tl.bfloat16), mask=inside)
