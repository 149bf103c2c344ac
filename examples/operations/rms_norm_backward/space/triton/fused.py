import triton
import triton.language as tl


# Each of a few programs goes over many rows. A row is one block, and the weight's sums stay in registers.
@triton.jit
def fused(x, weight, inverse, grad, dx, workspace, rows, cols, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    parts = workspace.to(tl.pointer_type(tl.float32))
    program = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < cols
    gain = tl.load(weight + offsets, mask=inside, other=0.0)
    sums = tl.zeros((BLOCK,), tl.float32)
    for row in range(program, rows, PROGRAMS):
        first = row.to(tl.int64) * cols
        value = tl.load(x + first + offsets, mask=inside, other=0.0)
        slope = tl.load(grad + first + offsets, mask=inside, other=0.0)
        scale = tl.load(inverse + row)
        sums += value * slope * scale
        along = tl.sum(value * slope * gain, 0) * scale * scale / cols
        tl.store(dx + first + offsets, (slope * gain - value * along) * scale, mask=inside)
    # Also where there was no row.
    tl.store(parts + program * cols + offsets, sums, mask=inside)


@triton.jit
def program_sums(workspace, dweight, cols, PROGRAMS: tl.constexpr, COLUMNS: tl.constexpr):
    parts = workspace.to(tl.pointer_type(tl.float32))
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    sums = tl.zeros((16, COLUMNS), tl.float32)
    for start in range(0, PROGRAMS, 16):
        program = start + tl.arange(0, 16)[:, None]
        inside = (program < PROGRAMS) & (column < cols)
        sums += tl.load(parts + program * cols + column, mask=inside, other=0.0)
    to = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(dweight + to, tl.sum(sums, 0), mask=to < cols)
