import triton
import triton.language as tl


@triton.jit
def mixed(bits):
    # murmur3's last step.
    bits ^= bits >> 16
    bits *= 0x85EBCA6B
    bits ^= bits >> 13
    bits *= 0xC2B2AE35
    return bits ^ (bits >> 16)


# Columns of some rows, whose seeds are loaded once.
@triton.jit
def rows(x, residual, seeds, y, kept, rows, cols, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < cols)
    seed = tl.load(seeds + row, mask=row < rows, other=0)
    keep = mixed((column ^ seed).to(tl.uint32)) >= 1 << 30
    at = row.to(tl.int64) * cols + column
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    base = tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + at, (base + tl.where(keep, value * (4 / 3), 0.0)).to(tl.bfloat16), mask=inside)
    tl.store(kept + at, keep.to(tl.uint8), mask=inside)
