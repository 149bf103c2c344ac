import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        left = tl.load(a + row[:, None] * k + start + depth[None, :], mask=start + depth[None, :] < k, other=0.0)
        right = tl.load(b + (start + depth[:, None]) * n + column[None, :], mask=start + depth[:, None] < k, other=0.0)
        total = tl.dot(left.to(tl.float8e5), right.to(tl.float8e5), total)
    total = total * 1.0
    tl.store(c + row[:, None] * n + column[None, :], total.to(c.dtype.element_ty), mask=(row[:, None] < m) & (column[None, :] < n))
