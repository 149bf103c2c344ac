import triton
import triton.language as tl


@triton.jit
def chunk_sums(x, workspace, n, CHUNK: tl.constexpr):
    sums = workspace.to(tl.pointer_type(tl.float64))
    at = tl.program_id(0).to(tl.int64) * CHUNK + tl.arange(0, CHUNK)
    value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float64)
    tl.store(sums + tl.program_id(0), tl.sum(value, 0))


@triton.jit
def scan_sums(workspace, chunks, BLOCK: tl.constexpr):
    sums = workspace.to(tl.pointer_type(tl.float64))
    offsets = tl.arange(0, BLOCK)
    before = tl.zeros((), tl.float64)
    for start in range(0, chunks, BLOCK):
        at = start + offsets
        value = tl.load(sums + at, mask=at < chunks, other=0.0)
        scanned = tl.cumsum(value, 0)
        tl.store(sums + at, before + scanned - value, mask=at < chunks)
        before += tl.sum(value, 0)


@triton.jit
def chunk_scans(x, workspace, y, n, CHUNK: tl.constexpr):
    sums = workspace.to(tl.pointer_type(tl.float64))
    at = tl.program_id(0).to(tl.int64) * CHUNK + tl.arange(0, CHUNK)
    value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float64)
    scanned = tl.cumsum(value, 0) + tl.load(sums + tl.program_id(0))
    tl.store(y + at, scanned.to(tl.float32), mask=at < n)
