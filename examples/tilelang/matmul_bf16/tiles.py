import tilelang.language as T

TILE_M, TILE_N, TILE_K = 128, 128, 32


def kernelcast_kernel(m, n, k):
    # The number of loads in flight must be known when the kernel is lowered.
    stages = 3 if isinstance(k, int) else 0

    @T.prim_func
    def matmul(a: T.Tensor((m, k), "bfloat16"), b: T.Tensor((k, n), "bfloat16"), c: T.Tensor((m, n), "bfloat16")):
        with T.Kernel(T.ceildiv(n, TILE_N), T.ceildiv(m, TILE_M), threads=128) as (column, row):
            tile_a = T.alloc_shared((TILE_M, TILE_K), "bfloat16")
            tile_b = T.alloc_shared((TILE_K, TILE_N), "bfloat16")
            sums = T.alloc_fragment((TILE_M, TILE_N), "float32")
            T.clear(sums)
            for step in T.Pipelined(T.ceildiv(k, TILE_K), num_stages=stages):
                T.copy(a[row * TILE_M, step * TILE_K], tile_a)
                T.copy(b[step * TILE_K, column * TILE_N], tile_b)
                T.gemm(tile_a, tile_b, sums)
            T.copy(sums, c[row * TILE_M, column * TILE_N])

    return matmul
