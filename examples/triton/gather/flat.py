import triton
import triton.language as tl


@triton.jit
def gather(table, index, out, total, dim, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    source = tl.load(index + at // dim, mask=inside, other=0).to(tl.int64)
    tl.store(out + at, tl.load(table + source * dim + at % dim, mask=inside), mask=inside)
