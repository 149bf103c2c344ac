import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr):
    # Programs that share tiles of b run close to each other.
    program = tl.program_id(0)
    columns = tl.cdiv(n, N)
    rows = tl.cdiv(m, M)
    first = program // (GROUP * columns) * GROUP
    size = min(rows - first, GROUP)
    row = (first + program % (GROUP * columns) % size) * M + tl.arange(0, M)
    column = program % (GROUP * columns) // size * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        left = tl.load(a + row[:, None] * k + start + depth[None, :], mask=(row[:, None] < m) & (start + depth[None, :] < k), other=0.0)
        right = tl.load(b + (start + depth[:, None]) * n + column[None, :], mask=(start + depth[:, None] < k) & (column[None, :] < n), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + row[:, None] * n + column[None, :], total.to(c.dtype.element_ty), mask=(row[:, None] < m) & (column[None, :] < n))
