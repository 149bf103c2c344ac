import tilelang.language as T


# A block handles a row in tiles of `width` columns.
def kernelcast_kernel(rows, cols, width=1024):
    @T.prim_func
    def row_softmax(x: T.Tensor((rows, cols), "float32"), y: T.Tensor((rows, cols), "float32")):
        with T.Kernel(rows, threads=256) as row:
            tile = T.alloc_fragment((width,), "float32")
            largest = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.fill(largest, -T.infinity("float32"))
            for part in T.serial(T.ceildiv(cols, width)):
                for i in T.Parallel(width):
                    tile[i] = T.if_then_else(part * width + i < cols, x[row, part * width + i], -T.infinity("float32"))
                T.reduce_max(tile, largest, dim=0, clear=False)
            T.clear(total)
            for part in T.serial(T.ceildiv(cols, width)):
                for i in T.Parallel(width):
                    tile[i] = T.if_then_else(part * width + i < cols, T.exp(x[row, part * width + i] - largest[0]), 0.0)
                T.reduce_sum(tile, total, dim=0, clear=False)
            for part in T.serial(T.ceildiv(cols, width)):
                for i in T.Parallel(width):
                    if part * width + i < cols:
                        y[row, part * width + i] = T.exp(x[row, part * width + i] - largest[0]) / total[0]

    return row_softmax
