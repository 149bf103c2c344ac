import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    left = tl.make_tensor_descriptor(a, (m, k), (k, 1), (M, K))
    right = tl.make_tensor_descriptor(b, (k, n), (n, 1), (K, N))
    out = tl.make_tensor_descriptor(c, (m, n), (n, 1), (M, N))
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        total = tl.dot(left.load((tl.program_id(0) * M, start)), right.load((start, tl.program_id(1) * N)), total)
    out.store((tl.program_id(0) * M, tl.program_id(1) * N), total.to(tl.bfloat16))
