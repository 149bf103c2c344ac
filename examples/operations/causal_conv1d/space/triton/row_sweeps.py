import triton
import triton.language as tl


# Some rows, block by block: each program goes along its rows, and the filters stay in registers.
@triton.jit
def row_sweeps(x, filters, y, rows, channels, length, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    channel = row % channels
    first = tl.load(filters + channel * 4, mask=row < rows, other=0.0)
    second = tl.load(filters + channel * 4 + 1, mask=row < rows, other=0.0)
    third = tl.load(filters + channel * 4 + 2, mask=row < rows, other=0.0)
    fourth = tl.load(filters + channel * 4 + 3, mask=row < rows, other=0.0)
    base = x + row.to(tl.int64) * length
    for start in range(0, length, BLOCK):
        at = start + tl.arange(0, BLOCK)[None, :]
        inside = (row < rows) & (at < length)
        total = fourth * tl.load(base + at, mask=inside, other=0.0).to(tl.float32)
        total += third * tl.load(base + at - 1, mask=inside & (at >= 1), other=0.0).to(tl.float32)
        total += second * tl.load(base + at - 2, mask=inside & (at >= 2), other=0.0).to(tl.float32)
        total += first * tl.load(base + at - 3, mask=inside & (at >= 3), other=0.0).to(tl.float32)
        tl.store(y + row.to(tl.int64) * length + at, (total * tl.sigmoid(total)).to(tl.bfloat16), mask=inside)
